"""The steps of a range of snapshots: its changes, commit by commit.

Read in this order:

- `first_steps`: as many steps as fit into one batch
- `load_parts`: a load whose files do not fit into one batch
- `bytes_of_steps`: how many steps one batch has room for
- `steps`: a passage in numbered steps
- `commit_groups`: snapshots that one commit published together
"""

__all__ = ["first_steps", "load_parts", "steps"]
