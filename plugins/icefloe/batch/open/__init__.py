"""Opening a batch: which one it is, and which snapshots it covers.

From one look at the checkpoint and the table to a recorded batch, which `plan` goes on with.

Read in this order:

- `find_work`: a look for work, which the sensor asks for again and again
- `next_batch`: the open batch, or a new one with the next range
- `claim_batch`: records the batch before any work on it, and whose its places are
- `next_range`: the range of a pipeline's next batch
- `identity_policy`: the columns that make two rows the same row
- `recorded_pipeline`: how the pipeline of today differs from the recorded one; refuses what changes its meaning
- `pin`: keeps snapshots that are not delivered yet from expiring
- `cores`: how many tasks run at once
"""

__all__ = [
    "claim_batch",
    "cores",
    "find_work",
    "identity_policy",
    "next_batch",
    "next_range",
    "pin",
    "recorded_pipeline",
]
