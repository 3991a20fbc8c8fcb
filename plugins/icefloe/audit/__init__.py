"""The proof that changes are right: sums per batch, and a replay against the table.

Read in this order:

- `sums`: signed counts of rows and signed sums of row hashes, per ordinal
- `identity_order`: the changes of each identity, found in any order of parts
- `change_promises`: what a batch of changes promises beyond its sums
- `replay`: states and changes as weighted rows that must cancel out
- `keyed_rows`: the rows of two places, compared by key
"""

__all__ = ["change_promises", "identity_order", "keyed_rows", "replay", "sums"]
