"""Opening a table: catalogs, their configuration and errors, and the FileIO that opens its files.

Read in this order:

- `catalogs`: loads a table
- `pyiceberg_configuration`: PyIceberg's own configuration, read first
- `catalog_errors`: errors of catalogs, told apart by type
- `bounded_rest`: PyIceberg's REST catalog with timeouts
- `bounded_sql`: its SQL catalog with timeouts
- `bounded_hive`: its Hive catalog with timeouts
- `bounded_aws`: its Glue and DynamoDB catalogs with timeouts
- `private_catalog`: keeps a table's own properties out of its FileIO
- `file_io`: opens files; errors of storage become ours
- `file_io_properties`: the properties that open files, without those of the catalog
- `file_places`: where a table's files may lie
- `confined_io`: a FileIO that opens nothing elsewhere
- `table_refs`: the only commits to a table, of branches and tags
- `metadata_errors`: errors of loading a table, and of its metadata files
- `refused_certificate`: certificates of servers that a client refused
- `encryption`: encrypted tables, refused
"""

__all__ = [
    "catalogs",
    "confined_io",
    "encryption",
    "file_io",
    "file_io_properties",
    "file_places",
    "metadata_errors",
    "pyiceberg_configuration",
    "table_refs",
]
