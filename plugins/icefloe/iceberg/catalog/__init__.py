"""Opening a table: catalogs, their configuration and errors, and the FileIO that opens its files.

Read in this order:

- `catalogs`: loads a table; keeps its own properties out of its FileIO
- `pyiceberg_configuration`: PyIceberg's own configuration, read first
- `catalog_errors`: errors of catalogs, told apart by type
- `bounded_catalogs`: PyIceberg's catalogs with timeouts
- `bounded_sql`: its SQL catalog with timeouts
- `file_io`: opens files; errors of storage become ours
- `confined_io`: a FileIO that opens nothing outside of a table's places
- `table_refs`: the only commits to a table, of branches and tags
- `metadata_errors`: errors of loading a table, and of its metadata files
"""

__all__ = ["catalogs", "confined_io", "file_io", "metadata_errors", "pyiceberg_configuration", "table_refs"]
