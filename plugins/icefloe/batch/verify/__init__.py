"""``icefloe verify``: delivered changes, replayed on the start state, must give the end state.

Read in this order:

- `verify_batches`: the batches of a pipeline, replayed run by run
- `schema_runs`: neighbouring batches that can be replayed at once
- `table_state`: the rows of the table at a snapshot
- `batch_promises`: what each batch promised, read from the checkpoint
- `verify_delivery`: a sink that batches are delivered to, compared with the table
- `sink_rows`: the rows that such a sink holds, and those that it should hold
- `written_columns`: the changes of a log in the columns of their batches, and in those of the table
- `missing_manifests`: batches at which readers of delivered files stop
- `delivery_findings`: the findings of that comparison, in sentences
"""

__all__ = ["table_state", "verify_batches", "verify_delivery", "written_columns"]
