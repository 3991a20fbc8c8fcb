"""Opening a batch: which one it is, and which snapshots it covers.

From one look at the checkpoint and the table to a recorded batch, which `plan` goes on with.

Read in this order:

- `find_work`: a look for work, which the sensor asks for again and again
- `next_batch`: the open batch, or a new one with the next range
- `new_batch`: the record of a new one
- `claim_batch`: records the batch before any work on it, and whose its places are
- `next_range`: the range of a pipeline's next batch
- `requested_range`: a range that somebody requests
- `identity_policy`: the columns that make two rows the same row
- `recorded_pipeline`: how the pipeline of today differs from the recorded one; refuses what changes its meaning
- `recorded_coordination`: the table that holds the records, if the pipeline names another one or none
- `unfit_sink`: whether the sink can take the batch
- `pin`: keeps snapshots that are not delivered yet from expiring
- `cores`: how many tasks run at once
"""

__all__ = [
    "claim_batch",
    "cores",
    "find_work",
    "identity_policy",
    "next_batch",
    "pin",
    "recorded_coordination",
    "recorded_pipeline",
    "requested_range",
    "unfit_sink",
]
