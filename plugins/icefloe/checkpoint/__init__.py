"""The memory of a pipeline: which batches were opened, which are done, and whose they are.

Records are created once and never changed. No batch is found by listing.

Read in this order:

- `ending`: how a batch ends, and the place that the pipeline has come to then
- `records`: the documents, each created once
- `batch_spec`: what a batch computes
- `log`: one look at a checkpoint, from which everything is decided; opens batches, ends them, and refuses gaps
- `ownership`: one owner at a time
- `record_store`: reads and creates single records; refuses a store that says of everything that it exists
"""

__all__ = ["batch_spec", "ending", "log", "ownership", "record_store", "records"]
