"""Opening a batch: the open one is resumed, else the next range is decided and recorded before any work."""

import hashlib
import json
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from icefloe.batch.identity import choose_identity
from icefloe.batch.range_request import RangeRequest, plan_request
from icefloe.batch.session import PipelineSession
from icefloe.checkpoint.log import Cursor
from icefloe.checkpoint.records import Identity, OffsetRecord, PipelineRecord
from icefloe.errors import TerminalError
from icefloe.iceberg.history import History
from icefloe.iceberg.steps import SnapshotRange, plan_range
from icefloe.iceberg.table_identity import table_uuid
from icefloe.iceberg.table_schema import TableSchema
from icefloe.pipeline.configuration import compare, result_configuration, tuning_configuration
from icefloe.version import VERSION

__all__ = ["ConfigurationChangedError", "NextBatch", "Work", "find_work", "next_batch", "record_batch"]

logger = logging.getLogger(__name__)

_LOADS: Final[dict[str, Literal["changes", "full", "from_earliest"]]] = {
    "full": "full",
    "from_earliest": "from_earliest",
}


class ConfigurationChangedError(TerminalError):
    """The pipeline, or its table, is not the one its checkpoint was made for."""


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
    """

    session: PipelineSession
    offset: OffsetRecord
    is_resumed: bool


def find_work(session: PipelineSession) -> Work:
    """Whether a batch is open or the branch has moved since the cursor; two look-ups in the checkpoint."""
    head = History.of(session.table).head(session.pipeline.branch)
    head_id = None if head is None else head.snapshot_id
    cursor = session.checkpoint.cursor()
    if cursor is None:
        has_new = head_id is not None or session.pipeline.initial_load == "from_now"
    else:
        has_new = head_id is not None and head_id != cursor.snapshot_id
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
        TerminalError: the range cannot be read (see `plan_range`).
    """
    if request is not None:
        return _backfill(session, request)
    checkpoint = session.checkpoint
    recorded = checkpoint.pipeline()
    if recorded is not None:
        _refuse_other_meaning(session, recorded)
    resumed = checkpoint.open_batch()
    if resumed is not None:
        logger.info("%s: resuming batch %d", session.pipeline.name, resumed.batch_number)
        return NextBatch(session=session, offset=resumed, is_resumed=True)
    snapshots = _next_range(session, checkpoint.cursor())
    if snapshots is None:
        return None
    return _new(session, snapshots, recorded.identity if recorded is not None else None)


def record_batch(batch: NextBatch) -> OffsetRecord:
    """Records a batch before any work on it; another run may have been first, then its record counts."""
    if batch.is_resumed:
        return batch.offset
    checkpoint = batch.session.checkpoint
    checkpoint.create_pipeline(_pipeline_record(batch.session, batch.offset.identity))
    return checkpoint.create_offset(batch.offset)


def _next_range(session: PipelineSession, cursor: Cursor | None) -> SnapshotRange | None:
    pipeline, table = session.pipeline, session.table
    if cursor is None and pipeline.initial_load == "from_now":
        head = History.of(table).head(pipeline.branch)
        return SnapshotRange(after_snapshot_id=None, up_to_snapshot_id=None if head is None else head.snapshot_id)
    after = None if cursor is None else cursor.snapshot_id
    snapshots = plan_range(
        table,
        branch=pipeline.branch,
        after_snapshot_id=after,
        load=_LOADS[pipeline.initial_load] if cursor is None else "changes",
        on_rollback=pipeline.on_rollback,
        commit_groups=pipeline.commit_groups,
    )
    return None if snapshots.up_to_snapshot_id == after else snapshots


def _new(session: PipelineSession, snapshots: SnapshotRange, identity: Identity | None) -> NextBatch:
    schema = TableSchema.at(session.table.metadata, snapshots.up_to_snapshot_id)
    latest = session.checkpoint.latest_batch()
    offset = OffsetRecord(
        batch_number=0 if latest is None else latest + 1,
        after_snapshot_id=snapshots.after_snapshot_id,
        up_to_snapshot_id=snapshots.up_to_snapshot_id,
        steps=snapshots.steps,
        skipped_replace_snapshots=snapshots.skipped_replace_snapshots,
        warnings=snapshots.warnings,
        identity=identity or choose_identity(session.pipeline.identifier_columns, schema),
        result_configuration=result_configuration(session.pipeline),
        tuning_configuration=tuning_configuration(session.pipeline),
        opened_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
    )
    return NextBatch(session=session, offset=offset, is_resumed=False)


def _backfill(session: PipelineSession, request: RangeRequest) -> NextBatch:
    """The one batch of a backfill: its place follows from range and configuration, so a rerun finds it."""
    pipeline = session.pipeline
    snapshots = plan_request(
        session.table,
        request,
        branch=pipeline.branch,
        on_rollback=pipeline.on_rollback,
        commit_groups=pipeline.commit_groups,
    )
    backfill = session.for_backfill(_backfill_id(session, snapshots))
    recorded = backfill.checkpoint.offset(0)
    if recorded is not None:
        return NextBatch(session=backfill, offset=recorded, is_resumed=True)
    return _new(backfill, snapshots, None)


def _backfill_id(session: PipelineSession, snapshots: SnapshotRange) -> str:
    meaning = json.dumps([table_uuid(session.table), result_configuration(session.pipeline)], sort_keys=True)
    digest = hashlib.sha256(meaning.encode()).hexdigest()[:8]
    after = "start" if snapshots.after_snapshot_id is None else snapshots.after_snapshot_id
    return f"{after}-{snapshots.up_to_snapshot_id}-{digest}"


def _pipeline_record(session: PipelineSession, identity: Identity) -> PipelineRecord:
    return PipelineRecord(
        name=session.pipeline.name,
        table=session.pipeline.table,
        table_uuid=table_uuid(session.table),
        table_location=session.table.metadata.location,
        identity=identity,
        result_configuration=result_configuration(session.pipeline),
        icefloe_version=VERSION,
    )


def _refuse_other_meaning(session: PipelineSession, recorded: PipelineRecord) -> None:
    """Stops a pipeline whose table was replaced or whose keys were edited since its first batch."""
    name = session.pipeline.name
    uuid = table_uuid(session.table)
    told_by = ("uuid", recorded.table_uuid, uuid)
    if recorded.table_uuid is None or uuid is None:
        told_by = ("location", recorded.table_location, session.table.metadata.location)
    what, was, now = told_by
    if was != now:
        raise ConfigurationChangedError(
            f"pipeline {name} follows the table {recorded.table} with {what} {was}, but the table of that name now has "
            f"{what} {now}: it was dropped and created again; give the pipeline another name to start anew",
            recorded=was,
            current=now,
        )
    differences = compare(recorded.result_configuration, result_configuration(session.pipeline))
    if differences:
        pairs = ", ".join(f"{key} was {json.dumps(was)} and is {json.dumps(now)}" for key, was, now in differences)
        raise ConfigurationChangedError(
            f"pipeline {name} ({session.pipeline.path}) was edited in what its changes mean since its first batch: "
            f"{pairs}; restore the keys, or give the pipeline another name to start anew",
            differences=differences,
        )
