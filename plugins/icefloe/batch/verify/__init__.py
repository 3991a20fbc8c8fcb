"""``icefloe verify``: delivered changes, replayed on the start state, must give the end state.

Read in this order:

- `replay_batches`: the batches of a pipeline, replayed run by run
- `schema_runs`: neighbouring batches that can be replayed at once
- `schema_run_replay`: start state, changes and end state of such a run
- `table_state`: the rows of the table at a snapshot
- `batch_promises`: what each batch promised, read from the checkpoint
- `continuity`: whether committed batches follow one another
"""

__all__ = ["replay_batches"]
