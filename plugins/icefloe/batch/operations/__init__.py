"""The ways out of a stuck pipeline, for an operator.

Read in this order:

- `outdated_errors`: whose errors count, if others move the pipeline on meanwhile
- `abandoned_batch`: gives up an open batch
- `half_delivered`: a batch of which a sink may hold a part, so that only a reset gives it up
- `cursor_move`: a batch that delivers nothing and moves the cursor
- `cursor_change`: ``set-cursor``: the move of the cursor to a snapshot that a user names
- `pipeline_reset`: the pipeline begins again
- `delivered_again`: committed batches go to a sink once more
"""

__all__ = ["abandoned_batch", "cursor_change", "cursor_move", "delivered_again", "outdated_errors", "pipeline_reset"]
