"""The snapshots of a table over time.

Read in this order:

- `history`: snapshots, lineage, branches, the lag of a cursor; the time at which a snapshot may expire
- `loaded_table`: one version of a table's metadata, and earlier ones; whether history begins with a snapshot
- `passage`: the snapshots of a range; a tag that was moved
- `published`: every state that readers saw, by the log of a branch
- `pins`: branches and tags that keep snapshots from expiring, the only commits to a table
- `summaries`: rows as the writers counted them
"""

__all__ = ["history", "loaded_table", "passage", "pins", "published", "summaries"]
