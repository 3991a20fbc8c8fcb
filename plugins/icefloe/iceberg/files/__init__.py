"""Data files, read as Arrow batches in bounded memory; `catalog/file_io` opens them.

Read in this order:

- `reader`: rows in the table's schema, with their positions
- `opened_file`: the contract of the formats
- `parquet_file`: Parquet
- `parquet_footer`: column chunks in a footer, checked before Arrow looks at them; footers that are kept
- `parquet_sizes`: sizes of rows and dictionaries of a Parquet file
- `identical_columns`: columns whose bytes are equal in two files
- `orc_file`: ORC
- `avro_file`: Avro
- `avro_container`: the blocks of an Avro file, their codecs and primitive values, bounded
- `avro_values`: values of one Avro type
"""

__all__ = ["avro_container", "identical_columns", "opened_file", "parquet_footer", "reader"]
