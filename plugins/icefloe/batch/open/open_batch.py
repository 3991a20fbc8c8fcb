"""The batch to work on: the open one, or a new one with the next range. Nothing is written here."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.open.cores import available_cores
from icefloe.batch.open.identity_policy import choose_identity, has_row_ids, kept_identity
from icefloe.batch.open.next_range import next_range
from icefloe.batch.open.range_request import RangeRequest, backfill_id, plan_request
from icefloe.batch.open.recorded_pipeline import refuse_other_meaning, tuning_warnings
from icefloe.checkpoint.batch_spec import PLANNER_VERSION, BatchSpec
from icefloe.checkpoint.identity import Identity
from icefloe.checkpoint.records import OffsetRecord, format_of
from icefloe.checkpoint.view import CheckpointView
from icefloe.errors import TerminalError
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.history.pins import PinNames
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.iceberg.steps.steps import SnapshotRange
from icefloe.pipeline.error_lines import with_lines
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.nested_places import refuse_nested_places
from icefloe.units import now_text
from icefloe.version import VERSION

__all__ = ["NextBatch", "next_batch", "requested_batch"]

logger = logging.getLogger(__name__)


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
        NestedPlacesError: one of the pipeline's places is inside another.
        TerminalError: the range cannot be read (see `find_passage`), or an identifier column is gone.
    """
    pipeline = session.pipeline
    with with_lines(pipeline):
        refuse_nested_places(pipeline, session.table.location())
        # The look comes before the table: the cursor's snapshot is then in the table, or is gone for good.
        view = view or session.checkpoint.look()
        session = session.with_fresh_table()
        table, opened = LoadedTable(session.table), view.opened
        if opened is not None and opened.move is not None:
            # It delivers nothing, and a reset is there for pipelines and tables that have changed.
            return NextBatch(session=session, table=table, offset=opened, is_resumed=True)
        if view.pipeline is not None:
            refuse_other_meaning(session, view.pipeline)
        if opened is not None:
            return _resumed(session, table, opened)
        is_pinned = pipeline.pin and view.checkpoint_id is not None
        pins = PinNames.of(pipeline.name, str(view.checkpoint_id)) if is_pinned else None
        snapshots = next_range(table, pipeline, view.cursor, pins=pins)
        return None if snapshots is None else _new(session, table, view, snapshots, cores)


def requested_batch(session: PipelineSession, request: RangeRequest, *, cores: int | None = None) -> NextBatch | None:
    """The one batch of a backfill. Its place follows from range and configuration. None for an empty range.

    Args:
        session: session of the pipeline.
        request: the range.
        cores: cores of the Spark master; None: as its configuration or this machine says.

    Raises:
        IcefloeError: as `next_batch`.
    """
    pipeline = session.pipeline
    with with_lines(pipeline):
        refuse_nested_places(pipeline, session.table.location())
        table = LoadedTable(session.table)
        snapshots = plan_request(
            table,
            request,
            branch=pipeline.branch,
            on_rollback=pipeline.on_rollback,
            commit_groups=pipeline.commit_groups,
        )
        if snapshots.after_snapshot_id == snapshots.up_to_snapshot_id:
            return None
        backfill = session.for_backfill(backfill_id(session, snapshots))
        view = backfill.checkpoint.look()
        opened = view.opened or _delivered(backfill, view)
        return _new(backfill, table, view, snapshots, cores) if opened is None else _resumed(backfill, table, opened)


def _delivered(backfill: PipelineSession, view: CheckpointView) -> OffsetRecord | None:
    """The batch of a backfill, if it is delivered; None if there is none yet, or if the last one was abandoned."""
    # A backfill is one batch, whatever the pipeline delivers meanwhile. So it follows nothing but abandoned ones.
    if view.cursor is None or view.cursor.is_beginning:
        return None
    return backfill.checkpoint.offset(view.cursor.batch_number)


def _resumed(session: PipelineSession, table: LoadedTable, opened: OffsetRecord) -> NextBatch:
    if opened.spec.planner_version != PLANNER_VERSION:
        raise TerminalError(
            f"batch {opened.batch_number} of {session.pipeline.name} was planned by version "
            f"{opened.spec.planner_version} of the planner, and this release has version {PLANNER_VERSION}: finish it "
            f"with icefloe {opened.icefloe_version}, which opened it",
            batch_number=opened.batch_number,
        )
    warnings = tuning_warnings(session, opened)
    logger.info("%s: resuming batch %d", session.pipeline.name, opened.batch_number)
    for warning in warnings:
        logger.warning("%s", warning)
    return NextBatch(session=session, table=table, offset=opened, is_resumed=True, warnings=warnings)


def _new(
    session: PipelineSession, table: LoadedTable, view: CheckpointView, snapshots: SnapshotRange, cores: int | None
) -> NextBatch:
    """The batch after the cursor of a view. Number, cursor and load part all come from that one look."""
    pipeline = session.pipeline
    schema = TableSchema.at(table.metadata, snapshots.up_to_snapshot_id, after_snapshot_id=snapshots.after_snapshot_id)
    identity, warnings = _identity(session, schema, None if view.pipeline is None else view.pipeline.identity)
    offset = OffsetRecord(
        version=format_of(view.cursor),
        batch_number=view.next_number,
        checkpoint_id=view.checkpoint_id or session.surroundings.new_name(),
        opened_by=session.writer,
        follows=view.cursor,
        spec=_spec(pipeline, snapshots, identity, cores or available_cores(pipeline)),
        warnings=(*snapshots.warnings, *warnings),
        result_configuration=session.result_configuration,
        opened_at=now_text(),
        icefloe_version=VERSION,
    )
    return NextBatch(session=session, table=table, offset=offset, is_resumed=False)


def _identity(
    session: PipelineSession, schema: TableSchema, recorded: Identity | None
) -> tuple[Identity, Sequence[str]]:
    """The identity that the pipeline began with, or a new one if none is recorded."""
    pipeline = session.pipeline
    if recorded is not None:
        return kept_identity(recorded, schema, pipeline=pipeline.name, table=pipeline.table)
    chosen = choose_identity(
        pipeline.identifier_columns,
        schema,
        table=pipeline.table,
        has_row_ids=has_row_ids(session.table, pipeline.computed_changes),
    )
    return chosen, ()


def _columns(pipeline: Pipeline, identity: Identity) -> tuple[str, ...] | None:
    """The columns to deliver; None: all. A sink needs the identity even if the pipeline does not select it."""
    if pipeline.columns is None or not pipeline.delivers:
        return pipeline.columns
    return tuple(dict.fromkeys((*pipeline.columns, *(name.partition(".")[0] for name in identity.columns))))


def _spec(pipeline: Pipeline, snapshots: SnapshotRange, identity: Identity, cores: int) -> BatchSpec:
    return BatchSpec(
        after_snapshot_id=snapshots.after_snapshot_id,
        up_to_snapshot_id=snapshots.up_to_snapshot_id,
        steps=snapshots.steps,
        skipped_replace_snapshots=snapshots.skipped_replace_snapshots,
        is_reload=snapshots.is_reload,
        identity=identity,
        changes=pipeline.computed_changes,
        columns=_columns(pipeline, identity),
        filter=pipeline.as_written.filter,
        partitions=pipeline.shuffle.partitions,
        target_size_bytes=pipeline.shuffle.target_size_bytes,
        map_task_bytes=pipeline.shuffle.map_task_bytes,
        target_file_bytes=pipeline.changes_folder.target_file_bytes,
        cores=cores,
    )
