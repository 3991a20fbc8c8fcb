"""``icefloe verify``: delivered changes, replayed on the start state, must give the end state.

Read in this order:

- `verify_batches`: the batches of a pipeline, replayed run by run
- `schema_runs`: batches that can be replayed at once
- `table_state`: the rows of the table at a snapshot, and the replay
- `promises`: what each batch promised about types, order and steps
- `verify_delivery`: a delivery sink, compared with the table
- `sink_rows`: the rows of such a sink, and those that it should hold
- `keyed_rows`: the rows of two places, compared by key
- `written_columns`: changes of a log in the columns of batches and of the table
- `delivery_findings`: the findings in sentences
"""

__all__ = ["schema_runs", "table_state", "verify_batches", "verify_delivery", "written_columns"]
