"""Data files, read as Arrow batches in bounded memory; `catalog/file_io` opens them.

Read in this order:

- `reader`: rows in the table's schema, with their positions
- `opened_file`: the contract of the formats
- `parquet_file`: Parquet, and sizes of rows and dictionaries
- `parquet_footer`: footers, checked before Arrow sees them, and kept
- `identical_columns`: columns with equal bytes in two files
- `orc_file`: ORC
"""

__all__ = ["reader"]
