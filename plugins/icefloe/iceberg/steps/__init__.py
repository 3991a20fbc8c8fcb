"""The steps of a range of snapshots: its changes, commit by commit.

Read in this order:

- `first_steps`: as many steps as fit into one batch, or a part of a load
- `steps`: a passage in numbered steps
- `commit_groups`: snapshots that one commit published together
- `replace_check`: ``replace`` snapshots keep their rows
"""

__all__ = ["first_steps", "steps"]
