"""Setting the cursor to a snapshot of the branch's history."""

from dataclasses import dataclass

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.open.recorded_pipeline import refuse_other_meaning
from icefloe.batch.operations.cursor_move import PipelineView
from icefloe.checkpoint.cursor import BatchOutcome, Cursor
from icefloe.checkpoint.records import CursorMove, OffsetRecord
from icefloe.iceberg.history.cursor_distance import CursorDistance, cursor_distance
from icefloe.iceberg.history.history import History

__all__ = ["CursorChange", "plan_cursor_change"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorChange:
    """A move of the cursor that was not made yet.

    Attributes:
        cursor: present cursor; None before the first batch.
        distance: commits that are skipped and repeated; None if the cursor's snapshot expired.
        offset: record of the batch that moves the cursor.
    """

    cursor: Cursor | None
    distance: CursorDistance | None
    offset: OffsetRecord

    @property
    def breaks_load(self) -> bool:
        """True if an initial load is not complete, so that the rest of its rows is never delivered."""
        return self.cursor is not None and self.cursor.load_part is not None


def plan_cursor_change(session: PipelineSession, snapshot_id: int) -> CursorChange | None:
    """The move of the cursor to a snapshot; None if it is there already. Changes nothing.

    Args:
        session: session of the pipeline.
        snapshot_id: the next batch begins after it.

    Raises:
        BatchOpenError: a batch is open.
        ConfigurationChangedError: the pipeline or its table is not the one that the checkpoint was made for.
        UnknownSnapshotError: the snapshot is not in the history of the branch.
    """
    found = PipelineView.of(session)
    view, pipeline = found.view, found.session.pipeline
    if view.pipeline is not None:
        refuse_other_meaning(found.session, view.pipeline)
    cursor_id = None if view.cursor is None else view.cursor.snapshot_id
    distance = cursor_distance(History.of(found.session.table), cursor_id, snapshot_id, branch=pipeline.branch)
    if view.cursor is not None and cursor_id == snapshot_id and view.cursor.load_part is None:
        return None
    identity = found.chosen_identity(snapshot_id) if view.pipeline is None else view.pipeline.identity
    move = CursorMove(outcome=BatchOutcome.CURSOR_SET)
    return CursorChange(cursor=view.cursor, distance=distance, offset=found.offset(move, snapshot_id, identity))
