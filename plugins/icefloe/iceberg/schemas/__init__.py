"""Schemas: of a snapshot, of selected columns, of the columns of two states.

Read in this order:

- `table_schema`: the schema in which a batch delivers rows, and whether one fits two states
- `covering_schema`: a snapshot's schema, widened for the rows of others, and the widest type of each column
- `identifier_columns`: columns that identify rows, found by dotted names and checked
- `row_lineage`: row ids of V3 tables
- `equality_schema`: key columns of equality delete files
- `struct_paths`: columns inside structs
- `arrow_types`: the Arrow type of each Iceberg type
"""

__all__ = [
    "arrow_types",
    "covering_schema",
    "equality_schema",
    "identifier_columns",
    "row_lineage",
    "struct_paths",
    "table_schema",
]
