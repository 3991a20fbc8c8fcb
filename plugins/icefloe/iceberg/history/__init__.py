"""The snapshots of a table over time.

Read in this order:

- `history`: snapshots, lineage, branches
- `loaded_table`: one version of a table's metadata, handed down through planning, and its earlier versions
- `passage`: the snapshots of a range, found once and handed down; a tag that was moved
- `rollback`: the state on which a branch lands that left a snapshot
- `first_snapshot`: whether a range can begin with a snapshot; the snapshot at a time
- `pins`: branches and tags that keep snapshots from expiring
- `lag`: the lag of a cursor, the commits that its moves skip or repeat, and when its snapshot expires
- `summaries`: rows as the writers counted them
"""

__all__ = ["first_snapshot", "history", "lag", "loaded_table", "passage", "pins", "rollback", "summaries"]
