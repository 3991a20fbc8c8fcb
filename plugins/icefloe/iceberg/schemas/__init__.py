"""Schemas of tables, and the columns of a file as columns of the table, by field id.

Read in this order:

- `table_schema`: the schema in which a batch delivers rows, and whether one fits two states
- `covering_schema`: a snapshot's schema, widened for the rows of others, and the widest type of each column
- `column_paths`: columns by dotted names: of identities, of a selection
- `arrow_types`: the Arrow type of each Iceberg type
- `projection`: planned once per file, which is refused if its columns do not fit
- `file_columns`: a file's columns by field id
- `conversions`: small steps from one array to another, also of structs, lists and maps
"""

__all__ = [
    "arrow_types",
    "column_paths",
    "conversions",
    "covering_schema",
    "file_columns",
    "projection",
    "table_schema",
]
