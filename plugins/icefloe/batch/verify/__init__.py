"""``icefloe verify``: delivered changes, replayed on the start state, must give the end state.

Read in this order:

- `verify_batches`: the batches of a pipeline, replayed run by run
- `schema_runs`: neighbouring batches that can be replayed at once
- `table_state`: the rows of the table at a snapshot, and the replay
- `promises`: what each batch promised about types, order and steps
- `verify_delivery`: a sink that batches are delivered to, compared with the table
- `sink_rows`: the rows that such a sink holds, and those that it should hold
- `keyed_rows`: the rows of two places, compared by key
- `written_columns`: the changes of a log in the columns of their batches, and in those of the table
- `delivery_findings`: the findings of that comparison, in sentences
"""

__all__ = ["schema_runs", "table_state", "verify_batches", "verify_delivery", "written_columns"]
