"""Moves of the cursor: looked up, shown, then made as a batch that delivers nothing.

The batch is recorded first. Any run that finds it open completes it, so a move survives a kill at any place.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from icefloe.batch.context.end_batch import BatchEnd, complete_unfinished_end
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.open.claim_batch import claim_places
from icefloe.batch.open.column_policies import pipeline_identity
from icefloe.batch.open.recorded_pipeline import (
    look_at_checkpoint,
    pipeline_differences,
    pipeline_record,
    record_pipeline,
    refuse_other_meaning,
)
from icefloe.batch.status import PipelineStatus
from icefloe.batch.upkeep.abandoned_batch import AbandonedBatch, BatchStateError
from icefloe.checkpoint.batch_spec import BatchSpec, Identity
from icefloe.checkpoint.log import CheckpointView
from icefloe.checkpoint.records import BatchOutcome, Cursor, Ending, OffsetRecord, PipelineRecord
from icefloe.errors import TransientError
from icefloe.iceberg.history.history import CursorDistance, NotAnAncestorError
from icefloe.iceberg.history.published import BranchLog
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.units import now_text
from icefloe.version import VERSION

__all__ = ["CursorMove"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineView:
    """Pipeline, checkpoint and table, looked at in this order, with no batch open (``given_up`` counts as ended)."""

    session: PipelineSession
    view: CheckpointView
    given_up: AbandonedBatch | None = None

    @classmethod
    def of(cls, session: PipelineSession, *, gives_up: bool = False) -> "PipelineView":
        """`BatchStateError` if a batch is open, except a half-delivered one that the caller gives up."""
        view = look_at_checkpoint(session)
        given_up = AbandonedBatch.half_delivered(session, view) if gives_up else None
        if given_up is not None:
            view = replace(view, cursor=given_up.ending.cursor, opened=None)
        if view.opened is not None:
            number, name = view.opened.batch_number, session.pipeline.name
            raise BatchStateError(
                f"batch {number} of {name} is open, so the cursor cannot be moved: icefloe run {name} finishes the "
                f"batch, icefloe abandon {name} gives it up",
                batch_number=number,
            )
        return cls(session=session.with_fresh_table(), view=view, given_up=given_up)

    def chosen_identity(self, snapshot_id: int | None) -> Identity:
        """The identity if the pipeline begins now."""
        table = self.session.table
        return pipeline_identity(self.session.pipeline, table, TableSchema.at(table.metadata, snapshot_id))

    def made_current_at_ms(self, snapshot_id: int) -> int | None:
        """Time of the last entry of a snapshot in the log; None: the pipeline follows the lineage."""
        table, pipeline = self.session.table, self.session.pipeline
        if not pipeline.follows_log:
            return None
        log = BranchLog.of(table, pipeline.branch, snapshot_id)
        place = log.place_of(snapshot_id)
        if place is None:
            raise NotAnAncestorError(
                f"the cursor cannot be set to snapshot {snapshot_id}, because it is in no entry of the log of branch "
                f"{pipeline.branch!r} of table {table.name}, which follow: log reads; choose one that was current"
            )
        return log.entries[place].timestamp_ms

    def offset(
        self,
        outcome: BatchOutcome,
        snapshot_id: int | None,
        identity: Identity,
        record: PipelineRecord | None,
        made_current_at_ms: int | None = None,
    ) -> OffsetRecord:
        view, pipeline = self.view, self.session.pipeline
        return OffsetRecord(
            checkpoint_id=view.checkpoint_id or self.session.surroundings.new_name(),
            opened_by=self.session.writer,
            follows=view.cursor,
            spec=BatchSpec(
                after_snapshot_id=snapshot_id,
                up_to_snapshot_id=snapshot_id,
                steps=(),
                identity=identity,
                changes=pipeline.computed_changes,
                columns=pipeline.columns,
                filter=pipeline.as_written.filter,
                cores=1,
                hash_key=self.session.surroundings.new_key(),
            ),
            ending=Ending.after(
                view.cursor,
                outcome,
                snapshot_id=snapshot_id,
                snapshot=self.session.table.history.recorded(snapshot_id),
                made_current_at_ms=made_current_at_ms,
                has_pipeline=record is not None,
            ),
            pipeline=record,
            result_configuration=self.session.result_configuration,
            opened_at=now_text(),
            icefloe_version=VERSION,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorMove:
    """A move of the cursor that was not made yet: to a snapshot, or a reset to the beginning.

    Attributes:
        cursor: given up by the move; None before the first batch.
        distance: commits that are skipped and repeated; None if the cursor's snapshot expired, and for a reset.
        differences: key, recorded and present value of each difference from the recorded pipeline, for a reset.
        rows: rows of the table now, by the summary of its head, for a reset; None if it does not say.
        given_up: end of a half-delivered batch that the reset gives up; None: no batch is open.
    """

    cursor: Cursor | None
    offset: OffsetRecord
    distance: CursorDistance | None = None
    differences: Sequence[tuple[str, object, object]] = ()
    rows: int | None = None
    given_up: AbandonedBatch | None = None

    @staticmethod
    def complete_unfinished(session: PipelineSession) -> None:
        """Completes a move or an abandon that was killed."""
        if complete_unfinished_end(session, session.checkpoint.look()) is not None:
            PipelineStatus.publish(session, phase="cleanup")

    @classmethod
    def to(cls, session: PipelineSession, snapshot_id: int) -> Self | None:
        """The move of the cursor to a snapshot; None if it is there already. Changes nothing.

        Raises:
            BatchStateError: a batch is open, or the sink holds a part of a load, or the rows of before a reset.
            NotAnAncestorError: the snapshot is not in the history of the branch.
        """
        found = PipelineView.of(session)
        view, pipeline = found.view, found.session.pipeline
        if pipeline.delivers and view.cursor is not None:
            _require_loaded(found.session, view.cursor)
        if view.pipeline is not None:
            refuse_other_meaning(found.session, view.pipeline)
        cursor_id = None if view.cursor is None else view.cursor.snapshot_id
        history = found.session.table.history
        is_reused = view.cursor is not None and not history.is_same(view.cursor.snapshot)
        distance = None if is_reused else history.cursor_distance(cursor_id, snapshot_id, branch=pipeline.branch)
        entry_ms = found.made_current_at_ms(snapshot_id)
        if (
            view.cursor is not None
            and not is_reused
            and (cursor_id, view.cursor.made_current_at_ms) == (snapshot_id, entry_ms)
            and view.cursor.load_part is None
        ):
            return None
        identity = found.chosen_identity(snapshot_id) if view.pipeline is None else view.pipeline.identity
        # The cursors after a move name it if it has the record of the pipeline; see `snapshots_left_by`.
        record = view.pipeline if pipeline.delivers else None
        offset = found.offset(BatchOutcome.CURSOR_SET, snapshot_id, identity, record, entry_ms)
        return cls(cursor=view.cursor, distance=distance, offset=offset)

    @classmethod
    def reset(cls, session: PipelineSession) -> Self | None:
        """The reset of a pipeline; None if it begins with its next batch anyway. Changes nothing.

        `BatchStateError` if a batch is open that can be finished or abandoned.
        """
        found = PipelineView.of(session, gives_up=True)
        view, fresh = found.view, found.session
        if view.pipeline is None:
            return None
        head = fresh.table.history.head(fresh.pipeline.branch)
        identity = found.chosen_identity(None if head is None else head.snapshot_id)
        differences = pipeline_differences(fresh, view.pipeline)
        if identity != view.pipeline.identity:
            differences = [*differences, ("identity", list(view.pipeline.identity.columns), list(identity.columns))]
        if not found.given_up and not differences and (view.cursor is None or view.cursor.is_beginning):
            return None
        record = pipeline_record(fresh, identity, checkpoint_id=view.pipeline.checkpoint_id) if differences else None
        return cls(
            cursor=view.cursor,
            offset=found.offset(BatchOutcome.RESET, None, identity, record),
            differences=differences,
            rows=fresh.table.history.rows_at_head(fresh.pipeline.branch),
            given_up=found.given_up,
        )

    def make(self, session: PipelineSession) -> BatchOutcome:
        """Records and completes the move.

        `TransientError` if its number was taken, or if a run has delivered the batch that was to be given up.
        """
        if self.given_up is not None:
            self.given_up.give_up()
        pipeline, offset, number = session.pipeline, self.offset, self.offset.batch_number
        # Before the record: a move that no sink takes could never be completed, and would stop the pipeline. Each
        # folder must be writable, and have no other batch of the number.
        for folder in session.numbered_folders:
            folder.check()
            folder.refuse_other_batch(
                session.origin(offset.checkpoint_id),
                number,
                after=offset.spec.after_snapshot_id,
                up_to=offset.spec.up_to_snapshot_id,
            )
        checkpoint_id = claim_places(session, offset.checkpoint_id)
        if offset.ending.outcome is BatchOutcome.CURSOR_SET:
            record_pipeline(session, offset, checkpoint_id=checkpoint_id)
        found = session.checkpoint.create_offset(replace(offset, checkpoint_id=checkpoint_id))
        if (found.ending, found.pipeline) != (offset.ending, offset.pipeline):
            raise TransientError(
                f"another run of {pipeline.name} opened batch {number} meanwhile, so the cursor was not moved: look "
                "again, and pause the pipeline before you move its cursor",
                batch_number=number,
            )
        done = BatchEnd.of_open(session, found).record()
        PipelineStatus.publish(session, phase="cleanup")
        return done.outcome


def _require_loaded(session: PipelineSession, cursor: Cursor) -> None:
    """Stops a move over a load that a sink outside of our files needs. Readers of files see moves in the manifests."""
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
    """True if the sink may hold rows, though the cursor is at the beginning."""
    for number in range(cursor.batch_number, -1, -1):
        commit = session.checkpoint.committed(number)
        if commit is None or commit.outcome is BatchOutcome.DELIVERED:
            return True
        if commit.outcome is BatchOutcome.ABANDONED:
            whole = session.folder_of_changes.whole(number)
            # Given up half delivered: it has staged changes, or its staged files are gone.
            if whole is None or whole.rows > 0:
                return True
    return False
