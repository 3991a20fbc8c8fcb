"""``icefloe verify``: delivered changes, replayed on the start state, must give the end state.

Read in this order:

- `replay_batches`: the replay
- `schema_runs`: neighbouring batches that can be replayed at once
- `batch_promises`: what each batch promised, read from the checkpoint
- `continuity`: whether committed batches follow one another
"""

__all__ = ["replay_batches"]
