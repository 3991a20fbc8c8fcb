"""Sweep: deletes what dead runs left in a storage and at the sinks, and nothing that a living one needs.

The survey only reads. It decides for each batch by the checkpoint: a batch that has an ending needs none of its files,
an open batch needs all of them. Files of no known batch go by their age.

Read in this order:

- `survey`: everything that may be deleted in a storage and at its sinks, and why the rest is left alone
- `shuffle_listing`: the files below ``shuffle/``, counted by checkpoint and batch
- `found_checkpoint`: from the files of a checkpoint to the checkpoint
- `batch_states`: whether a batch has ended, is open, or was never opened
- `shuffle_folders`: the leftovers in the folder of one checkpoint
- `forgotten_files`: the files of a checkpoint that is gone
- `sink_files`: the files there that no manifest names
- `leftover`: some files that are to be deleted, and their deletion
"""

__all__ = ["leftover", "survey"]
