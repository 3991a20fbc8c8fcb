"""Changes: rows with weights, hashed, added up and paired. Pure functions on Arrow arrays.

Read in this order:

- `columns`: the change columns
- `row_hash`: one hash of 128 bits for rows, equal everywhere
- `consolidate`: weights of equal rows added up
- `net`: weights over a whole batch
- `updates`: update pairs, in the order of delivery
- `grouping`: rows grouped by all 128 bits of their hash
- `alignment`: equal rows at equal positions, found without a hash
- `hash_slice`: a slice of the hashes, for more rows than fit at once
- `hash_index`: hashes found again among others
- `identity_moves`: equal rows of different identities that cancel
"""

__all__ = [
    "alignment",
    "columns",
    "consolidate",
    "hash_index",
    "hash_slice",
    "identity_moves",
    "net",
    "updates",
]
