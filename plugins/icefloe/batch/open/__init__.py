"""Opening a batch: which one it is, and which snapshots it covers.

Read in this order:

- `next_batch`: a look for work; the open batch, or a new one with the next range
- `claim_batch`: records the batch before any work on it, and whose its places are
- `next_range`: the snapshots of a pipeline's next batch
- `column_policies`: the columns that identify, deliver and filter rows
- `recorded_pipeline`: refuses a pipeline of another meaning than the recorded one
- `pin`: keeps pending snapshots from expiring
"""

__all__ = ["claim_batch", "column_policies", "next_batch", "next_range", "pin", "recorded_pipeline"]
