"""Delete files and deletion vectors, as bitmaps of positions in data files.

Read in this order:

- `deleted_positions`: all delete files of one map task; deletion vectors, several in one request
- `equality_deletes`: keys of equality delete files, looked up in data files
"""

__all__ = ["deleted_positions", "equality_deletes"]
