"""Schemas of tables, and a file's columns as columns of the table, by field id.

Read in this order:

- `table_schema`: the schema in which a batch delivers rows
- `column_paths`: columns by dotted names
- `arrow_columns`: the Arrow type of each Iceberg type; a file's columns by field id
- `projection`: planned once per file, refused if its columns do not fit
- `conversions`: small steps from one array to another
"""

__all__ = ["arrow_columns", "column_paths", "conversions", "projection", "table_schema"]
