"""The open batch, or a new one with the next range. Nothing is written here."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.open.identity_policy import delivered_columns, kept_identity, pipeline_identity
from icefloe.batch.open.next_range import RequestedRange, backfill_id, is_emptied, next_range, plan_request, start_of
from icefloe.batch.open.recorded_pipeline import pipeline_differences, refuse_other_coordination, refuse_other_meaning
from icefloe.checkpoint.batch_spec import BatchSpec
from icefloe.checkpoint.log import Checkpoint, CheckpointView
from icefloe.checkpoint.records import BatchOutcome, Cursor, Ending, OffsetRecord
from icefloe.errors import ExpandedText, TerminalError, about_key
from icefloe.iceberg.history.pins import PipelinePins
from icefloe.iceberg.scan.steps import SnapshotRange
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.pipeline.model import ChangesPlace, Pipeline
from icefloe.units import now_text
from icefloe.version import VERSION

if TYPE_CHECKING:
    from icefloe.iceberg.filters.row_filter import RowFilter

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
        if session.pipeline.follows_log and not has_new:
            # Readers may have seen other states meanwhile.
            has_new = history.came_to_head_ms(session.pipeline.branch) not in (None, cursor.made_current_at_ms)
    return Work(has_open_batch=view.opened is not None, has_new_snapshot=has_new, head_snapshot_id=head_id)


_KEY: Final = "filter_columns"

Compared = Sequence[Sequence[object]]
"""Field id and type of each column that a filter names, in the order of the names."""


def filter_columns_of_batch(
    session: PipelineSession, view: CheckpointView, schema: TableSchema, *, after_snapshot_id: int | None
) -> Mapping[str, object]:
    """Columns of the filter for the record of a batch; `TerminalError` if it would sort delivered rows otherwise."""
    pipeline = session.pipeline
    if pipeline.filter is None:
        return {}
    found = _parsed(pipeline, schema)
    if after_snapshot_id is not None and view.cursor is not None and not view.cursor.is_beginning:
        change = _change_since(_compared_before(session, view.cursor, after_snapshot_id), found, pipeline)
        if change is not None:
            raise TerminalError(
                f"pipeline {pipeline.name} has filtered rows of table {pipeline.table} by {change} by icefloe reset "
                f"{pipeline.name}",
                table=pipeline.table,
                key="filter",
            )
    return {_KEY: _compared(found)}


def _parsed(pipeline: Pipeline, schema: TableSchema) -> "RowFilter":
    from icefloe.iceberg.filters.row_filter import RowFilter  # not needed without a filter

    with about_key("filter"):
        return RowFilter.parse(
            str(pipeline.filter), schema.columns, table=pipeline.table, written=pipeline.as_written.filter
        )


def _compared(row_filter: "RowFilter") -> Compared:
    fields = [row_filter.named[name] for name in sorted(row_filter.named)]
    return [[field.field_id, str(field.field_type)] for field in fields]


def _compared_before(session: PipelineSession, cursor: Cursor, snapshot_id: int) -> Compared:
    """By the record of the batch before or, if that only moved the cursor, by the schema of its snapshot."""
    offset, metadata = session.checkpoint.offset(cursor.batch_number), session.table.metadata
    recorded = None if offset is None else offset.result_configuration.get(_KEY)
    if isinstance(recorded, list):
        return recorded
    # None if the snapshot has expired, or if the filter did not fit then.
    with suppress(TerminalError):
        if metadata.snapshot_by_id(snapshot_id) is not None:
            return _compared(_parsed(session.pipeline, TableSchema.at(metadata, snapshot_id)))
    return []


def _change_since(before: Compared, found: "RowFilter", pipeline: Pipeline) -> str | None:
    """A column, its change and the way out, if its name is another column's now or its numbers compare otherwise."""
    given = ExpandedText.of(str(pipeline.filter), pipeline.as_written.filter)
    for name, (was_id, was), (now_id, now) in zip(sorted(found.named), before, _compared(found), strict=False):
        column = f"column {name!r}" if given.says(name) else f"a column made of {given.references}"
        if was_id != now_id:
            return (
                f"{column} since its first batch, but it is another column now, and rows that were delivered are "
                "judged by other values; restore the column's name, or start over"
            )
        if {was, now} == {"float", "double"} and (now == "float" or found.rounds(name)):
            return (
                f"{column} since its first batch, but it was a {was} and is a {now} now; no float equals the number "
                "that it is compared with; start over"
            )
    return None


def new_batch(session: PipelineSession, view: CheckpointView, snapshots: SnapshotRange, cores: int) -> OffsetRecord:
    """The batch after the cursor of a view. Number, cursor and load part all come from that one look."""
    pipeline, table = session.pipeline, session.table
    schema = TableSchema.at(table.metadata, snapshots.up_to_snapshot_id, after_snapshot_id=snapshots.after_snapshot_id)
    warnings: tuple[str, ...] = ()
    if view.pipeline is None:
        identity = pipeline_identity(pipeline, table, schema)
    else:
        recorded = view.pipeline.identity
        identity, warnings = kept_identity(recorded, schema, pipeline=pipeline.name, table=pipeline.table)
    columns = delivered_columns(pipeline, identity, schema)
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
            steps=snapshots.steps,
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


def snapshots_left_by_cursor(checkpoint: Checkpoint, cursor: Cursor | None) -> frozenset[int]:
    """Snapshots that the cursor was moved away from: each batch has to end there."""
    # A batch over the way back and what is new would show a row that changed and changed back as unchanged.
    found: set[int] = set()
    while cursor is not None and not cursor.is_beginning and cursor.pipeline_since is not None:
        offset = checkpoint.offset(cursor.pipeline_since)
        if offset is None or offset.ending.outcome is not BatchOutcome.CURSOR_SET:
            break
        cursor = offset.follows
        if cursor is not None and cursor.snapshot_id is not None:
            found.add(cursor.snapshot_id)
    return frozenset(found)


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


def next_batch(session: PipelineSession, *, view: CheckpointView | None = None, cores: int = 1) -> NextBatch | None:
    """The batch to work on: the open one with exactly its range, or the next one; None if there is nothing to do.

    Nothing is written: `record_batch` does.

    Args:
        view: a look at the checkpoint; None: a new one.
        cores: number of tasks that run at once.

    Raises:
        ExpiredHistoryError: snapshots that the range needs are gone.
        TerminalError: configuration or table differ from the record, or the records are not where the pipeline says.
    """
    pipeline = session.pipeline
    with pipeline.with_lines():
        # The look comes before the table: the cursor's snapshot is then in the table, or is gone for good.
        view = view or session.checkpoint.look()
        if view.checkpoint_id is None:
            refuse_other_coordination(session)
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
        pins = None
        if pipeline.pin and view.checkpoint_id is not None:
            pins = PipelinePins.of(table.history, PipelinePins.branch_of(pipeline.name, view.checkpoint_id))
        end_at = snapshots_left_by_cursor(session.checkpoint, view.cursor)
        snapshots = next_range(table, pipeline, cursor, pins=pins, end_at=end_at)
        if snapshots is None:
            return None
        offset = new_batch(session, view, snapshots, cores)
        return NextBatch(session=session, offset=offset, is_resumed=False)


def requested_batch(session: PipelineSession, request: RequestedRange, *, cores: int = 1) -> NextBatch | None:
    """The one batch of a backfill. Its place follows from range and configuration. None for an empty range.

    A request without an end goes on with the open backfill that it began before; see `open_backfill`.
    """
    pipeline = session.pipeline
    with pipeline.with_lines():
        table = session.table
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
        view = backfill.checkpoint.look()
        if view.checkpoint_id is None:
            refuse_other_coordination(backfill)
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
