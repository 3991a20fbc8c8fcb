"""The row hash: 128 bits, equal for equal rows in every file and type, under a key (docs/developers/formats.md).

Read in this order:

- `row_hashes`: the hash of rows
- `column_hash`: the contribution of one column to the hash; words of its values
- `mixing`: the secret factors and what is multiplied by them; sums over strings and lists
"""

__all__ = ["column_hash", "row_hashes"]
