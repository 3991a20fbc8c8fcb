"""The batch to work on: the open one, or a new one with the next range. Nothing is written here."""

import logging
from dataclasses import dataclass, field

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.open.new_batch import new_batch
from icefloe.batch.open.next_range import next_range
from icefloe.batch.open.recorded_coordination import refuse_other_coordination
from icefloe.batch.open.recorded_pipeline import refuse_other_meaning, warnings_of_resumed
from icefloe.batch.open.requested_range import RequestedRange, backfill_id, plan_request, start_of
from icefloe.checkpoint.ending import BatchOutcome, Cursor
from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.records import OffsetRecord
from icefloe.checkpoint.view import CheckpointView
from icefloe.errors import TerminalError
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.history.pins import PinNames
from icefloe.pipeline.model import with_lines

__all__ = ["NextBatch", "next_batch", "requested_batch"]

logger = logging.getLogger(__name__)


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
        if offset is None or offset.ending.outcome is not BatchOutcome.CURSOR_SET:
            break
        cursor = offset.follows
        if cursor is not None and cursor.snapshot_id is not None:
            found.add(cursor.snapshot_id)
    return frozenset(found)


def open_backfill(
    session: PipelineSession, table: LoadedTable, request: RequestedRange
) -> tuple[PipelineSession, OffsetRecord] | None:
    """The session of the backfill to resume, and its open batch; None: the request begins a new one.

    Takes one listing, and none for a request with an end.

    Args:
        session: session of the pipeline.
        table: the session's table.
        request: the range.
    """
    if request.has_end:
        return None
    start = start_of(table, request, branch=session.pipeline.branch)
    for found in session.checkpoint.open_backfills():
        up_to = found.partition("-")[2].partition("-")[0]
        if found == backfill_id(session.table, session.result_configuration, start, up_to):
            backfill = session.for_backfill(found)
            opened = backfill.checkpoint.look().opened
            # Another run may have ended it since it was listed.
            if opened is not None:
                logger.warning(
                    "%s: resuming backfill %s, which is open and ends at snapshot %s: a request without an end goes on "
                    "with it, and means the head again once it is done", session.pipeline.name, found,
                    opened.up_to_snapshot_id,
                )  # fmt: skip
                return backfill, opened
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class NextBatch:
    """The batch a run works on.

    Attributes:
        session: session whose places the batch uses; the backfill's own session if the run is a backfill.
        table: the session's table, as its range was planned.
        offset: the range and its steps; recorded already when ``is_resumed``.
        warnings: warnings of this run, in addition to the recorded ones.
    """

    session: PipelineSession
    table: LoadedTable = field(repr=False, compare=False)
    offset: OffsetRecord
    is_resumed: bool
    warnings: tuple[str, ...] = ()

    def require_same_end(self) -> None:
        """Raise TerminalError if the snapshot that the batch ends with is another one now under the same id."""
        recorded, up_to_id = self.offset.ending.cursor.snapshot, self.offset.up_to_snapshot_id
        if recorded is not None and self.table.found(recorded)[1] != up_to_id:
            raise TerminalError(
                f"batch {self.offset.batch_number} ends with snapshot {up_to_id}, and the table has another snapshot "
                "of that id since the batch was opened: its writer took the snapshot back and used its id again; give "
                "the batch up with icefloe abandon, or choose another range for a backfill",
                snapshot_id=up_to_id,
            )


def next_batch(
    session: PipelineSession, *, view: CheckpointView | None = None, cores: int | None = None
) -> NextBatch | None:
    """The batch to work on: the open one with exactly its range, or the next one; None if there is nothing to do.

    Nothing is written: `record_batch` does.

    Args:
        session: session of the pipeline.
        view: a look at the pipeline's checkpoint, if the caller has one; None: a new one.
        cores: cores of the Spark master; None: as its configuration or this machine says.

    Raises:
        ConfigurationChangedError: a key that changes the result, or the table, differs from what was recorded.
        ExpiredHistoryError: snapshots that the range needs are gone.
        TerminalError: the records are in a table that the pipeline no longer names.
        TerminalError: the records were in the table that the pipeline names, and are not there.
        TerminalError: the range cannot be read (see `find_passage`), or an identifier column is gone.
    """
    pipeline = session.pipeline
    with with_lines(pipeline):
        # The look comes before the table: the cursor's snapshot is then in the table, or is gone for good.
        view = view or session.checkpoint.look()
        if view.checkpoint_id is None:
            refuse_other_coordination(session)
        session, cursor = session.with_fresh_table().with_cursor(view.cursor)
        table = LoadedTable(session.table)
        opened = view.opened
        if opened is not None and opened.ending.is_move:
            # It delivers nothing, and a reset is there for pipelines and tables that have changed.
            return NextBatch(session=session, table=table, offset=opened, is_resumed=True)
        if view.pipeline is not None:
            refuse_other_meaning(session, view.pipeline)
        if opened is not None:
            return _resumed(session, table, opened)
        is_pinned = pipeline.pin and view.checkpoint_id is not None
        pins = PinNames.of(pipeline.name, str(view.checkpoint_id)) if is_pinned else None
        end_at = snapshots_left_by_cursor(session.checkpoint, view.cursor)
        snapshots = next_range(table, pipeline, cursor, pins=pins, end_at=end_at)
        if snapshots is None:
            return None
        offset = new_batch(session, table, view, snapshots, cores)
        return NextBatch(session=session, table=table, offset=offset, is_resumed=False)


def requested_batch(session: PipelineSession, request: RequestedRange, *, cores: int | None = None) -> NextBatch | None:
    """The one batch of a backfill. Its place follows from range and configuration. None for an empty range.

    A request without an end goes on with the open backfill that it began before; see `open_backfill`.

    Args:
        session: session of the pipeline.
        request: the range.
        cores: cores of the Spark master; None: as its configuration or this machine says.

    Raises:
        IcefloeError: as `next_batch`.
    """
    pipeline = session.pipeline
    with with_lines(pipeline):
        table = LoadedTable(session.table)
        begun = open_backfill(session, table, request)
        if begun is not None:
            return _resumed(begun[0], table, begun[1])
        snapshots = plan_request(
            table,
            request,
            branch=pipeline.branch,
            on_rollback=pipeline.on_rollback,
            commit_groups=pipeline.commit_groups,
        )
        if snapshots.after_snapshot_id == snapshots.up_to_snapshot_id:
            return None
        after, up_to = snapshots.after_snapshot_id, snapshots.up_to_snapshot_id
        backfill = session.for_backfill(backfill_id(session.table, session.result_configuration, after, up_to))
        view = backfill.checkpoint.look()
        if view.checkpoint_id is None:
            refuse_other_coordination(backfill)
        opened = view.opened or _delivered(backfill, view)
        if opened is not None:
            resumed = _resumed(backfill, table, opened)
            if view.opened is None:
                resumed.require_same_end()
            return resumed
        offset = new_batch(backfill, table, view, snapshots, cores)
        return NextBatch(session=backfill, table=table, offset=offset, is_resumed=False)


def _resumed(session: PipelineSession, table: LoadedTable, opened: OffsetRecord) -> NextBatch:
    warnings = warnings_of_resumed(session.pipeline, opened)
    return NextBatch(session=session, table=table, offset=opened, is_resumed=True, warnings=warnings)


def _delivered(backfill: PipelineSession, view: CheckpointView) -> OffsetRecord | None:
    """The batch of a backfill, if it is delivered; None if there is none yet, or if the last one was abandoned."""
    number = view.backfilled_number
    return None if number is None else backfill.checkpoint.offset(number)
