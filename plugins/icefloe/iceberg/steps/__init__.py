"""The steps of a range of snapshots: its changes, commit by commit.

Read in this order:

- `steps`: the steps of a range
- `step_collector`: numbers steps until a batch is full
- `commit_groups`: snapshots that one commit published together
- `replace_check`: ``replace`` snapshots keep their rows
- `tag_moves`: a tag that was moved
- `expired_start`: ranges whose start has expired
- `comparable_states`: the check that two states have rows in one schema
"""

__all__ = ["steps", "tag_moves"]
