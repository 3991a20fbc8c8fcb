"""Data files, read as Arrow batches in bounded memory; `catalog/file_io` opens them.

Read in this order:

- `reader`: rows in the table's schema, with their positions
- `projected_file`: an open file with the plan of its columns
- `file_formats`: opens a file by its format
- `opened_file`: the contract of the formats
- `parquet_file`: Parquet
- `kept_footers`: footers of files that are opened several times
- `kept_projections`: projections of files whose columns are alike
- `dictionary_pages`: dictionaries of a Parquet file, measured before they are decoded
- `parquet_footer`: column chunks in a footer, checked before Arrow looks at them
- `row_group_sizes`: rows and bytes of each row group, by the footer
- `identical_columns`: columns whose bytes are equal in two files
- `orc_file`: ORC
- `avro_file`: Avro
- `avro_container`: the blocks of an Avro file
- `avro_codecs`: compression of blocks, bounded
- `avro_types`: Avro types as Arrow types
- `avro_values`: values of one type
- `avro_decoder`: primitive values
"""

__all__ = [
    "avro_codecs",
    "avro_container",
    "identical_columns",
    "kept_footers",
    "kept_projections",
    "reader",
    "row_group_sizes",
]
