"""Opening a table: catalogs, their configuration and errors, and the FileIO.

Read in this order:

- `catalogs`: loads a table
- `pyiceberg_configuration`: PyIceberg's own configuration, read first
- `bounded_rest`: PyIceberg's REST catalog with timeouts
- `file_io`: opens files; errors of storage become ours
- `confined_io`: opens nothing outside of a table's places
- `catalog_errors`: errors of catalogs and metadata files; bounds of what is decoded
"""

__all__ = ["catalog_errors", "catalogs", "confined_io", "file_io", "pyiceberg_configuration"]
