"""The memory of a pipeline: which batches were opened, which are done, and whose they are.

Records are created once and never changed. No batch is found by listing.

Read in this order:

- `ending`: how a batch ends, and the place that the pipeline has come to then
- `records`: the documents, each created once
- `batch_spec`: what a batch computes
- `identity`: the identity of rows, as records keep it
- `view`: one look at a checkpoint, from which everything is decided
- `log`: opens batches and commits them; refuses gaps between them, and records that are gone
- `ownership`: one owner at a time
- `record_keys`: the keys of the records
- `record_store`: reads and creates single records; refuses a store that says of everything that it exists
"""

__all__ = ["batch_spec", "ending", "identity", "log", "ownership", "record_keys", "records", "view"]
