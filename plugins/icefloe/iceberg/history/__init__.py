"""The snapshots of a table over time.

Read in this order:

- `history`: snapshots, lineage, branches
- `metadata_log`: earlier versions of the metadata
- `rollback`: a branch that left the cursor's snapshot behind
- `first_snapshot`: the check whether history starts at a snapshot
- `snapshot_at`: the snapshot that was current at a time
- `expiry`: when a snapshot may expire
- `lag`: the lag of a cursor behind its branch
- `summaries`: rows as the writers counted them
"""

__all__ = [
    "expiry",
    "first_snapshot",
    "history",
    "lag",
    "metadata_log",
    "rollback",
    "snapshot_at",
    "summaries",
]
