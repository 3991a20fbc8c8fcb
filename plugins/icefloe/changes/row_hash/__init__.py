"""The row hash: 128 bits that are equal for equal rows in every file, type and release (docs/formats.md).

Read in this order:

- `row_hashes`: the hash of rows
- `column_hash`: the contribution of one column to the hash
- `canonical`: words of fixed-width values
- `byte_hash`: words of strings and bytes
- `sequences`: sums over strings, lists and maps
- `mixing`: the mixing functions
"""

__all__ = ["canonical", "mixing", "row_hashes"]
