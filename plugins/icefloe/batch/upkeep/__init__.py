"""The ways out of a stuck pipeline, for an operator, and the deletion of what dead runs left.

A survey only reads. It decides for each batch by the checkpoint: a batch that has ended needs none of its files, an
open batch needs all of them. Files of no known batch go by their age.

Read in this order:

- `abandoned_batch`: gives up an open batch
- `cursor_moves`: the pipeline begins again, or after another snapshot
- `redelivery`: committed batches go to a sink once more
- `survey`: everything that may be deleted in a storage and at its sinks, and why the rest is left alone
- `found_checkpoint`: from the files below ``shuffle/`` to the checkpoint that they are of
- `shuffle_folders`: the leftovers in the folder of one checkpoint, and those of a checkpoint that is gone
- `sink_files`: the files at a sink that no manifest names
- `leftover`: some files that are to be deleted, and their deletion
"""

__all__ = ["abandoned_batch", "cursor_moves", "leftover", "redelivery", "survey"]
