"""A proven batch goes where it is wanted, part by part.

Read in this order:

- `deliver_batch`: proves a batch, hands its parts to an engine, and records that the batch is visible.
  It refuses a sink that changed since the first try
- `deliver_part`: one part, where the engine runs it
- `delivery_records`: one record per part that a sink took, created once
- `output_mode`: what the sink is given of a batch
- `proven_batch`: a batch and its parts as a sink sees them
"""

__all__ = ["deliver_batch", "deliver_part", "delivery_records", "output_mode", "proven_batch"]
