"""The steps of a range of snapshots: its changes, commit by commit.

Read in this order:

- `steps`: a passage in numbered steps, until a batch is full
- `commit_groups`: snapshots that one commit published together
- `replace_check`: ``replace`` snapshots keep their rows
"""

__all__ = ["steps"]
