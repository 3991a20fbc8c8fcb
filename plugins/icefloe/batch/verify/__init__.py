"""``icefloe verify``: delivered changes, replayed on the start state, must give the end state.

Read in this order:

- `verify_batches`: the batches of a pipeline, replayed run by run
- `table_state`: batches that can be replayed at once, the rows of the table at a snapshot, and the replay
- `verify_delivery`: a delivery sink, compared with the table
- `verify_versions`: a history, compared with the table at every state that readers saw
- `key_ranges`: ranges of keys, one compared after the other
- `sink_rows`: the rows of such a sink in the columns of the table, and those that it should hold
- `delivery_findings`: the rows of both compared by key, and the findings in sentences
"""

__all__ = ["sink_rows", "table_state", "verify_batches", "verify_delivery"]
