"""Setting the cursor to a snapshot of the branch's history."""

from dataclasses import dataclass
from typing import Self

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.ends.empty_end import BatchStateError
from icefloe.batch.open.recorded_pipeline import refuse_other_meaning
from icefloe.batch.operations.cursor_move import PipelineView
from icefloe.batch.operations.half_delivered import is_given_up
from icefloe.checkpoint.ending import BatchOutcome, Cursor
from icefloe.checkpoint.records import OffsetRecord
from icefloe.iceberg.history.history import History
from icefloe.iceberg.history.lag import CursorDistance, cursor_distance

__all__ = ["CursorChange"]


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

    @classmethod
    def plan(cls, session: PipelineSession, snapshot_id: int) -> Self | None:
        """The move of the cursor to a snapshot; None if it is there already. Changes nothing.

        Args:
            session: session of the pipeline.
            snapshot_id: the next batch begins after it.

        Raises:
            BatchStateError: a batch is open.
            ConfigurationChangedError: the pipeline or its table is not the one that the checkpoint was made for.
            BatchStateError: the sink holds a part of a load, or the rows of before a reset.
            UnknownSnapshotError: the snapshot is not in the history of the branch.
        """
        found = PipelineView.of(session)
        view, pipeline = found.view, found.session.pipeline
        if pipeline.delivers and view.cursor is not None:
            _refuse_pending_load(found.session, view.cursor)
        if view.pipeline is not None:
            refuse_other_meaning(found.session, view.pipeline)
        _, cursor = found.session.with_cursor(view.cursor)
        cursor_id = None if cursor is None else cursor.snapshot_id
        distance = cursor_distance(History.of(found.session.table), cursor_id, snapshot_id, branch=pipeline.branch)
        if view.cursor is not None and cursor_id == snapshot_id and view.cursor.load_part is None:
            return None
        identity = found.chosen_identity(snapshot_id) if view.pipeline is None else view.pipeline.identity
        # The cursors after a move name it if it has the record of the pipeline; see `snapshots_left_by_cursor`.
        record = view.pipeline if pipeline.delivers else None
        offset = found.offset(BatchOutcome.CURSOR_SET, snapshot_id, identity, record)
        return cls(cursor=view.cursor, distance=distance, offset=offset)


def _refuse_pending_load(session: PipelineSession, cursor: Cursor) -> None:
    """Stops a move over a load that a sink outside of our files needs.

    Readers of files see the moves in the manifests, and leave out by themselves what was before. An index or a topic
    changes by batches alone: the rest of a load would be missing there, and rows of before a reset would stay.
    """
    name, sink = session.pipeline.name, session.pipeline.sink.type
    if cursor.load_part is not None:
        raise BatchStateError(
            f"{name} is in the middle of its load, so its cursor cannot be set: {sink} would never get the rest; "
            f"icefloe run {name} goes on with the load, icefloe reset {name} begins from scratch",
        )
    if cursor.is_beginning and _holds_rows(session, cursor):
        raise BatchStateError(
            f"{name} was reset and has not begun again, so its cursor cannot be set: {sink} would keep the rows of "
            f"before; icefloe run {name} replaces them, then repeat the command",
        )


def _holds_rows(session: PipelineSession, cursor: Cursor) -> bool:
    """True if the sink may hold rows of batches up to a cursor that is at the beginning."""
    for number in range(cursor.batch_number, -1, -1):
        commit = session.checkpoint.committed(number)
        if commit is None or commit.outcome is BatchOutcome.DELIVERED or is_given_up(session, commit):
            return True
    return False
