"""The open batch, or a new one with the next range. Nothing is written here."""

import logging
from dataclasses import dataclass, replace

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.open.column_policies import (
    delivered_columns,
    filter_columns_of_batch,
    kept_identity,
    pipeline_identity,
)
from icefloe.batch.open.next_range import RequestedRange, WayAhead, backfill_id, is_emptied, plan_request, start_of
from icefloe.batch.open.recorded_pipeline import look_at_checkpoint, pipeline_differences, refuse_other_meaning
from icefloe.checkpoint.batch_spec import BatchSpec
from icefloe.checkpoint.log import CheckpointView
from icefloe.checkpoint.records import BatchOutcome, Ending, OffsetRecord
from icefloe.errors import TerminalError
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.history.pins import PipelinePins
from icefloe.iceberg.history.published import BranchLog
from icefloe.iceberg.scan.steps import SnapshotRange
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.pipeline.model import ChangesPlace
from icefloe.units import now_text
from icefloe.version import VERSION

__all__ = ["NextBatch", "Work", "find_work", "next_batch", "requested_batch"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The work that a pipeline has to do."""

    has_open_batch: bool
    has_new_snapshot: bool
    head_snapshot_id: int | None

    @property
    def is_due(self) -> bool:
        """True if a batch can be opened or resumed."""
        return self.has_open_batch or self.has_new_snapshot


def find_work(session: PipelineSession) -> Work:
    """Looks for an open batch, an incomplete load, or a branch that has moved, by a few look-ups in the checkpoint."""
    history = session.table.history
    head = history.head(session.pipeline.branch)
    head_id = None if head is None else head.snapshot_id
    view = session.checkpoint.look()
    cursor = view.cursor
    if cursor is None or cursor.is_beginning:
        # Under from_now an empty table is work too: a batch without rows places the cursor before its first snapshot.
        # Otherwise the first run after that snapshot would place it after the first rows.
        has_new = head_id is not None or session.pipeline.initial_load == "from_now"
    elif cursor.load_part is not None:
        has_new = True
    elif is_emptied(history, session.pipeline, cursor):
        # Perhaps another table has the name now. A run stops at that, so that people hear of it.
        has_new = view.pipeline is not None and bool(pipeline_differences(session, view.pipeline))
    else:
        is_other = head is not None and cursor.snapshot is not None and not cursor.snapshot.is_same(head)
        has_new = is_other or head_id != cursor.snapshot_id
        if session.pipeline.follows_log and not has_new and cursor.snapshot_id is not None:
            log = BranchLog.of_main(history, session.pipeline.branch)
            has_new = log.shows_others_after(cursor.snapshot_id, cursor.made_current_at_ms)
    return Work(has_open_batch=view.opened is not None, has_new_snapshot=has_new, head_snapshot_id=head_id)


def new_batch(session: PipelineSession, view: CheckpointView, snapshots: SnapshotRange, cores: int) -> OffsetRecord:
    """The batch after the cursor of a view. Number, cursor and load part all come from that one look."""
    pipeline, table = session.pipeline, session.table
    schema = TableSchema.at(table.metadata, snapshots.up_to_snapshot_id, after_snapshot_id=snapshots.after_snapshot_id)
    warnings: tuple[str, ...] = ()
    with pipeline.with_lines():
        if view.pipeline is None:
            identity = pipeline_identity(pipeline, table, schema)
        else:
            recorded = view.pipeline.identity
            identity, warnings = kept_identity(recorded, schema, pipeline=pipeline.name, table=pipeline.table)
        try:
            columns = delivered_columns(pipeline, identity, schema)
        except TerminalError as cause:
            if view.pipeline is None:
                raise
            raise cause.restated(
                f"pipeline {pipeline.name} keeps the keys of its first batch, but {cause.sentence}; restore the "
                f"column's name, or start over by icefloe reset {pipeline.name}"
            ) from cause
        filter_columns = filter_columns_of_batch(session, view, schema, after_snapshot_id=snapshots.after_snapshot_id)
    followed_id = None if view.cursor is None else view.cursor.snapshot_id
    if followed_id is None:
        followed_id = snapshots.after_snapshot_id
    return OffsetRecord(
        checkpoint_id=view.checkpoint_id or session.surroundings.new_name(),
        opened_by=session.writer,
        follows=view.cursor,
        spec=BatchSpec(
            # Readers know the snapshot by its own id, also if the table has given that to another one.
            after_snapshot_id=snapshots.after_snapshot_id if snapshots.after_snapshot_id is None else followed_id,
            up_to_snapshot_id=snapshots.up_to_snapshot_id,
            steps=table.history.with_properties(snapshots.steps, pipeline.commit_properties),
            skipped_replace_snapshots=snapshots.skipped_replace_snapshots,
            is_reload=snapshots.is_reload,
            identity=identity,
            changes=pipeline.computed_changes,
            columns=columns,
            filter=pipeline.as_written.filter,
            partitions=pipeline.shuffle.partitions,
            target_size_bytes=pipeline.shuffle.target_size_bytes,
            map_task_bytes=pipeline.shuffle.map_task_bytes,
            target_file_bytes=pipeline.changes_folder.target_file_bytes,
            cores=cores,
            hash_key=session.surroundings.new_key(),
        ),
        ending=Ending.after(
            view.cursor,
            BatchOutcome.DELIVERED,
            snapshot_id=snapshots.up_to_snapshot_id,
            snapshot=table.history.recorded(snapshots.up_to_snapshot_id),
            load_part=snapshots.steps[0].load_part if snapshots.steps else None,
            made_current_at_ms=snapshots.made_current_at_ms,
        ),
        warnings=(*snapshots.warnings, *warnings),
        result_configuration={
            **session.result_configuration,
            **ChangesPlace.of(pipeline).configuration,
            **filter_columns,
        },
        opened_at=now_text(),
        icefloe_version=VERSION,
    )


def open_backfill(session: PipelineSession, request: RequestedRange) -> tuple[PipelineSession, OffsetRecord] | None:
    """The session of the backfill to resume, and its open batch, by one listing at most; None: a new one begins."""
    if request.up_to_snapshot_id is not None or request.up_to_timestamp is not None:
        return None
    start = start_of(session.table, request, branch=session.pipeline.branch)
    for found in session.checkpoint.open_backfills():
        up_to = found.partition("-")[2].partition("-")[0]
        if found == backfill_id(session.table, session.result_configuration, start, up_to):
            backfill = replace(session, backfill_id=found)
            opened = backfill.checkpoint.look().opened
            # Another run may have ended it since it was listed.
            if opened is not None:
                logger.warning(
                    "%s: resuming backfill %s, which is open and ends at snapshot %s: a request without an end goes on "
                    "with it, and means the head again once it is done", session.pipeline.name, found,
                    opened.spec.up_to_snapshot_id,
                )  # fmt: skip
                return backfill, opened
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class NextBatch:
    """The batch a run works on.

    Attributes:
        session: with the places that the batch uses, as a backfill has its own, and the table as it is planned by.
        offset: recorded already when ``is_resumed``.
    """

    session: PipelineSession
    offset: OffsetRecord
    is_resumed: bool


def next_batch(session: PipelineSession, view: CheckpointView, *, cores: int = 1) -> NextBatch | None:
    """The batch to work on: the open one with exactly its range, or the next one; None if there is nothing to do.

    Nothing is written: `record_batch` does.

    Args:
        view: the checkpoint. The table is loaded after it: the cursor's snapshot is then in it, or gone for good.
        cores: number of tasks that run at once.

    Raises:
        ExpiredHistoryError: snapshots that the range needs are gone.
        TerminalError: configuration or table differ from the record, or the records are not where the pipeline says.
    """
    pipeline = session.pipeline
    session, cursor = session.with_fresh_table(), view.cursor
    table, opened = session.table, view.opened
    if opened is not None and opened.ending.is_move:
        # It delivers nothing, and a reset is there for pipelines and tables that have changed.
        return NextBatch(session=session, offset=opened, is_resumed=True)
    if view.pipeline is not None:
        refuse_other_meaning(session, view.pipeline)
    if opened is not None:
        # A reload does not begin at the cursor, whose snapshot may be the reason for it.
        if cursor is not None and opened.spec.after_snapshot_id == cursor.snapshot_id:
            table.history.require_same(cursor.snapshot)
        return _resumed(session, opened)
    way = WayAhead(
        table=table,
        pipeline=pipeline,
        cursor=None if cursor is None or cursor.is_beginning else cursor,
        # A batch over a way back and what is new would show a row that changed and changed back as unchanged.
        end_at=session.checkpoint.snapshots_left_by(cursor),
        pins=PipelinePins.find(table.history, pipeline.name, view.checkpoint_id) if pipeline.pin else None,
    )
    snapshots = way.next_range()
    if snapshots is None:
        return None
    offset = new_batch(session, view, snapshots, cores)
    return NextBatch(session=session, offset=offset, is_resumed=False)


def requested_batch(session: PipelineSession, request: RequestedRange, *, cores: int = 1) -> NextBatch | None:
    """The one batch of a backfill. Its place follows from range and configuration. None for an empty range.

    A request without an end goes on with the open backfill that it began before; see `open_backfill`.
    """
    pipeline, table = session.pipeline, LoadedTable(session.table.pyiceberg)
    # What planning reads of manifests is not kept as long as the session of the run.
    session = replace(session, table=table)
    begun = open_backfill(session, request)
    if begun is not None:
        return _resumed(*begun)
    snapshots = plan_request(
        table,
        request,
        branch=pipeline.branch,
        on_rollback=pipeline.on_rollback,
        commit_groups=pipeline.commit_groups,
        follows_log=pipeline.follows_log,
    )
    if snapshots.after_snapshot_id == snapshots.up_to_snapshot_id and not snapshots.steps:
        return None
    after, up_to = snapshots.after_snapshot_id, snapshots.up_to_snapshot_id
    found_id = backfill_id(table, session.result_configuration, after, up_to)
    backfill = replace(session, backfill_id=found_id)
    view = look_at_checkpoint(backfill)
    opened = view.opened
    if opened is None and view.backfilled_number is not None:
        opened = backfill.checkpoint.offset(view.backfilled_number)
    if opened is not None:
        resumed = _resumed(backfill, opened)
        if view.opened is None:
            table.history.require_same(opened.ending.cursor.snapshot)
        return resumed
    offset = new_batch(backfill, view, snapshots, cores)
    return NextBatch(session=backfill, offset=offset, is_resumed=False)


def _resumed(session: PipelineSession, opened: OffsetRecord) -> NextBatch:
    logger.info("%s: resuming batch %d", session.pipeline.name, opened.batch_number)
    return NextBatch(session=session, offset=opened, is_resumed=True)
