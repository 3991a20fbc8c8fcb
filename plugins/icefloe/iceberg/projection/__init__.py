"""From the columns of one file to the columns of the table, by field id.

Read in this order:

- `projection`: planned once per file, which is refused if its columns do not fit
- `file_columns`: a file's columns by field id
- `conversions`: small steps from one array to another
- `nested`: structs, lists and maps
- `renamed_rows`: rows of an earlier schema of the table
"""

__all__ = ["file_columns", "nested", "projection", "renamed_rows"]
