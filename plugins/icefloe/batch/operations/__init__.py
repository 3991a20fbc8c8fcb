"""The ways out of a stuck pipeline, for an operator.

Read in this order:

- `overtaken`: whose errors count, if others move the pipeline on meanwhile
- `abandoned_batch`: gives up an open batch
- `half_delivered`: a batch of which a sink may hold a part, so that only a reset gives it up
- `cursor_move`: a batch that delivers nothing and moves the cursor
- `set_cursor_move`: the cursor is set to a snapshot
- `pipeline_reset`: the pipeline begins again
- `delivered_again`: committed batches go to a sink once more
"""

__all__ = ["abandoned_batch", "cursor_move", "delivered_again", "overtaken", "pipeline_reset", "set_cursor_move"]
