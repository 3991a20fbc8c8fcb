"""Opening a table: catalogs, their errors, and the FileIO.

Read in this order:

- `catalogs`: loads a table
- `bounded_rest`: PyIceberg's REST catalog with timeouts
- `file_io`: opens files; errors of storage become ours
- `confined_io`: opens nothing outside of a table's places
- `catalog_errors`: errors of catalogs and metadata files; bounds of what is decoded
"""

__all__ = ["catalog_errors", "catalogs", "confined_io", "file_io"]
