"""The ways out of a stuck pipeline, for an operator.

Read in this order:

- `abandoned_batch`: gives up an open batch
- `cursor_move`: a batch that delivers nothing and moves the cursor
- `set_cursor_move`: the cursor is set to a snapshot
- `pipeline_reset`: the pipeline begins again
"""

__all__ = ["abandoned_batch", "cursor_move", "pipeline_reset", "set_cursor_move"]
