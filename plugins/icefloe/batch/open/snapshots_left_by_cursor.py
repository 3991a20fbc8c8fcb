"""The snapshots from which operators have moved the cursor of a pipeline away."""

from icefloe.checkpoint.cursor import BatchOutcome, Cursor
from icefloe.checkpoint.log import Checkpoint


def snapshots_left_by_cursor(checkpoint: Checkpoint, cursor: Cursor | None) -> frozenset[int]:
    """The snapshots that the cursor was moved away from since the pipeline began, at which each batch has to end.

    A cursor that is set back begins at a state that an index, or a reader of net changes, does not have any more. One
    batch over the way back and what is new would show a row that changed and changed back as unchanged. The sink would
    keep the row as it was in between.

    Args:
        checkpoint: of the pipeline.
        cursor: leads to the last move, if its sink is one to which batches are delivered.
    """
    found: set[int] = set()
    while cursor is not None and not cursor.is_beginning and cursor.pipeline_since is not None:
        offset = checkpoint.offset(cursor.pipeline_since)
        if offset is None or offset.move is None or offset.move.outcome is not BatchOutcome.CURSOR_SET:
            break
        cursor = offset.follows
        if cursor is not None and cursor.snapshot_id is not None:
            found.add(cursor.snapshot_id)
    return frozenset(found)
