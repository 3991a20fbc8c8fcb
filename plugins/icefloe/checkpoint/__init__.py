"""The memory of a pipeline: its batches, and their owner.

Records are created once and never changed. No batch is found by listing.

Read in this order:

- `protocol`: the states of a batch, and what leads from one to another
- `records`: the ends of batches, and the documents, each created once
- `batch_spec`: what a batch computes
- `log`: one look at a checkpoint; opens batches, ends them, refuses gaps, and has one owner at a time
- `record_store`: reads and creates single records
"""

__all__ = ["batch_spec", "log", "protocol", "record_store", "records"]
