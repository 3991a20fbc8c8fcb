"""The snapshots of a table over time.

Read in this order:

- `history`: snapshots, lineage, branches
- `metadata_log`: earlier versions of the metadata
- `loaded_table`: one version of a table's metadata, handed down through planning
- `landing`: a state that is reached at once, without commits
- `passage`: the snapshots of a range, found once and handed down
- `first_snapshot`: whether a range can begin with a snapshot
- `tag_moves`: a tag that was moved
- `snapshot_at`: the snapshot that was current at a time
- `expiry`: when a snapshot may expire
- `pins`: branches and tags that keep snapshots from expiring
- `lag`: the lag of a cursor behind its branch
- `cursor_distance`: the commits that a move of the cursor skips or repeats
- `summaries`: rows as the writers counted them
"""

__all__ = [
    "cursor_distance",
    "expiry",
    "history",
    "lag",
    "landing",
    "loaded_table",
    "metadata_log",
    "passage",
    "pins",
    "snapshot_at",
    "summaries",
    "tag_moves",
]
