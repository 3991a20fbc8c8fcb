"""The snapshots of a table over time.

Read in this order:

- `history`: snapshots, lineage, branches
- `loaded_table`: one version of a table's metadata, and earlier ones
- `passage`: the snapshots of a range; a tag that was moved
- `first_snapshot`: whether a range can begin with a snapshot; the one at a time
- `pins`: branches and tags that keep snapshots from expiring
- `lag`: the lag of a cursor, its moves, its snapshot's expiry
- `summaries`: rows as the writers counted them
"""

__all__ = ["first_snapshot", "history", "lag", "loaded_table", "passage", "pins", "summaries"]
