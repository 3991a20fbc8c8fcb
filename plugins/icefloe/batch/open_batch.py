"""Opening a batch: the open one is resumed, else the next range is decided and recorded before any work."""

import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from icefloe.batch.backfill import backfill_id
from icefloe.batch.identity import choose_identity, has_row_ids, kept_identity
from icefloe.batch.next_range import next_range
from icefloe.batch.range_request import RangeRequest, plan_request
from icefloe.batch.recorded_pipeline import pipeline_record, refuse_other_meaning, tuning_warnings
from icefloe.batch.session import PipelineSession
from icefloe.checkpoint.records import Identity, OffsetRecord
from icefloe.iceberg.history import History
from icefloe.iceberg.steps import SnapshotRange
from icefloe.iceberg.table_schema import TableSchema
from icefloe.pipeline.configuration import result_configuration, tuning_configuration
from icefloe.pipeline.lines import with_lines
from icefloe.pipeline.places import refuse_nested_places

__all__ = ["NextBatch", "Work", "find_work", "next_batch", "record_batch"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What the sensor asks: is there anything to do?"""

    has_open_batch: bool
    has_new_snapshot: bool
    head_snapshot_id: int | None

    @property
    def is_due(self) -> bool:
        """Whether a batch can be opened or resumed."""
        return self.has_open_batch or self.has_new_snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class NextBatch:
    """The batch a run works on.

    Attributes:
        session: whose places it uses; of the backfill, where the run is one.
        offset: the range and its steps; recorded already when ``is_resumed``.
        warnings: of this run, beside those that are recorded.
    """

    session: PipelineSession
    offset: OffsetRecord
    is_resumed: bool
    warnings: tuple[str, ...] = ()


def find_work(session: PipelineSession) -> Work:
    """Whether a batch is open, a load is not complete, or the branch has moved since the cursor.

    A few look-ups in the checkpoint.
    """
    head = History.of(session.table).head(session.pipeline.branch)
    head_id = None if head is None else head.snapshot_id
    cursor = session.checkpoint.cursor()
    if cursor is None:
        has_new = head_id is not None or session.pipeline.initial_load == "from_now"
    else:
        has_new = head_id != cursor.snapshot_id or cursor.load_part is not None
    return Work(
        has_open_batch=session.checkpoint.open_batch() is not None, has_new_snapshot=has_new, head_snapshot_id=head_id
    )


def next_batch(session: PipelineSession, request: RangeRequest | None = None) -> NextBatch | None:
    """The batch to work on: the open one with exactly its range, else the next one; None when there is nothing to do.

    Nothing is written: `record_batch` does.

    Args:
        session: of the pipeline.
        request: a range makes the run a backfill.

    Raises:
        ConfigurationChangedError: a key that changes the result, or the table, differs from what was recorded.
        ExpiredHistoryError: snapshots are gone that the range needs.
        NestedPlacesError: one of the pipeline's places is inside another.
        TerminalError: the range cannot be read (see `plan_range`), or an identifier column is gone.
    """
    with with_lines(session.pipeline):
        refuse_nested_places(session.pipeline, session.table.location())
        return _next(session) if request is None else _backfill(session, request)


def _next(session: PipelineSession) -> NextBatch | None:
    checkpoint = session.checkpoint
    recorded = checkpoint.pipeline()
    if recorded is not None:
        refuse_other_meaning(session, recorded)
    opened = checkpoint.open_batch()
    if opened is not None:
        return _resumed(session, opened)
    snapshots = next_range(session.table, session.pipeline, checkpoint.cursor())
    return None if snapshots is None else _new(session, snapshots, None if recorded is None else recorded.identity)


def record_batch(batch: NextBatch) -> OffsetRecord:
    """Records a batch before any work on it; another run may have been first, then its record counts.

    Raises:
        ConfigurationChangedError: another run was first, with keys that change the result.
    """
    if batch.is_resumed:
        return batch.offset
    checkpoint = batch.session.checkpoint
    recorded = checkpoint.create_pipeline(pipeline_record(batch.session, batch.offset.identity))
    refuse_other_meaning(batch.session, recorded)
    return checkpoint.create_offset(replace(batch.offset, identity=recorded.identity.named_as(batch.offset.identity)))


def _resumed(session: PipelineSession, opened: OffsetRecord) -> NextBatch:
    warnings = tuning_warnings(session, opened)
    logger.info("%s: resuming batch %d", session.pipeline.name, opened.batch_number)
    for warning in warnings:
        logger.warning("%s", warning)
    return NextBatch(session=session, offset=opened, is_resumed=True, warnings=warnings)


def _new(session: PipelineSession, snapshots: SnapshotRange, recorded: Identity | None) -> NextBatch:
    pipeline = session.pipeline
    schema = TableSchema.at(
        session.table.metadata, snapshots.up_to_snapshot_id, after_snapshot_id=snapshots.after_snapshot_id
    )
    warnings: tuple[str, ...] = ()
    if recorded is None:
        identity = choose_identity(
            pipeline.identifier_columns,
            schema,
            table=pipeline.table,
            has_row_ids=has_row_ids(session.table, pipeline.changes),
        )
    else:
        identity, warnings = kept_identity(recorded, schema, pipeline=pipeline.name, table=pipeline.table)
    latest = session.checkpoint.latest_batch()
    offset = OffsetRecord(
        batch_number=0 if latest is None else latest + 1,
        after_snapshot_id=snapshots.after_snapshot_id,
        up_to_snapshot_id=snapshots.up_to_snapshot_id,
        steps=snapshots.steps,
        skipped_replace_snapshots=snapshots.skipped_replace_snapshots,
        warnings=(*snapshots.warnings, *warnings),
        identity=identity,
        result_configuration=result_configuration(pipeline),
        tuning_configuration=tuning_configuration(pipeline),
        opened_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
    )
    return NextBatch(session=session, offset=offset, is_resumed=False)


def _backfill(session: PipelineSession, request: RangeRequest) -> NextBatch | None:
    """The one batch of a backfill, whose place follows from range and configuration; None for an empty range."""
    pipeline = session.pipeline
    snapshots = plan_request(
        session.table,
        request,
        branch=pipeline.branch,
        on_rollback=pipeline.on_rollback,
        commit_groups=pipeline.commit_groups,
    )
    if snapshots.after_snapshot_id == snapshots.up_to_snapshot_id:
        return None
    backfill = session.for_backfill(backfill_id(session, snapshots))
    opened = backfill.checkpoint.offset(0)
    return _new(backfill, snapshots, None) if opened is None else _resumed(backfill, opened)
