"""The ways out of a stuck pipeline, and the deletion of what dead runs left.

A survey only reads. By the checkpoint, a batch that has ended needs none of its files, an open batch needs all of them.
Files of no known batch go by their age.

Read in this order:

- `abandoned_batch`: gives up an open batch
- `cursor_moves`: the pipeline begins again, or after another snapshot
- `redelivery`: committed batches go to a sink once more
- `survey`: everything that may be deleted, and why the rest is left alone
"""

__all__ = ["abandoned_batch", "cursor_moves", "redelivery", "survey"]
