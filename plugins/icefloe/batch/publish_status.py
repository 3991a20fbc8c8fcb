"""Writing ``status.json``: after a plan, after a commit, and when a task failed. It never fails the task."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

from icefloe.batch.report import BatchReport
from icefloe.batch.session import PipelineSession
from icefloe.batch.status import Expiry, PipelineStatus, RecentBatch, Trouble, with_batch
from icefloe.checkpoint.log import Checkpoint, Cursor
from icefloe.documents import dump_document, load_document
from icefloe.errors import TerminalError
from icefloe.iceberg.expiry import next_expiry_ms
from icefloe.iceberg.history import History
from icefloe.iceberg.lag import lag
from icefloe.pipeline.model import Pipeline

__all__ = ["load_status", "publish_status", "publish_trouble", "status_of"]

logger = logging.getLogger(__name__)


def publish_status(
    session: PipelineSession,
    *,
    phase: str,
    dag_id: str | None = None,
    report: BatchReport | None = None,
    is_stale: bool = False,
) -> PipelineStatus | None:
    """Writes how a pipeline is doing; returns it, or None where it cannot be told. What fails is logged.

    Args:
        session: of the pipeline.
        phase: the task that succeeded; trouble of it and of those before is over.
        dag_id: of the run; None: as before.
        report: of a batch that was just committed.
        is_stale: the session's table was loaded so long ago that it is loaded anew.
    """
    status: PipelineStatus | None = None
    with _best_effort(session.pipeline):
        if is_stale:
            session = replace(session, table=session.table.catalog.load_table(session.table.name()))
        status = status_of(session, load_status(session.checkpoint), phase=phase, dag_id=dag_id, report=report)
        session.checkpoint.put_status(dump_document(status))
    return status


def publish_trouble(checkpoint: Checkpoint, pipeline: Pipeline, trouble: Trouble, *, dag_id: str | None = None) -> None:
    """Adds to the status that a task failed; needs neither table nor catalog, which may be what failed."""
    with _best_effort(pipeline):
        before = load_status(checkpoint) or PipelineStatus(
            pipeline=pipeline.name, table=pipeline.table, branch=pipeline.branch, dag_id=dag_id, updated_at=trouble.at
        )
        checkpoint.put_status(dump_document(before.with_trouble(trouble)))


def load_status(checkpoint: Checkpoint) -> PipelineStatus | None:
    """How a pipeline was doing; None where nothing says so, or nothing this release can read."""
    data = checkpoint.status()
    if data is None:
        return None
    try:
        return load_document(PipelineStatus, data, what=f"the status in {checkpoint.url}")
    except TerminalError as error:
        logger.warning("%s; the next batch writes it anew", error.sentence)
        return None


def status_of(
    session: PipelineSession,
    before: PipelineStatus | None,
    *,
    phase: str,
    dag_id: str | None = None,
    report: BatchReport | None = None,
) -> PipelineStatus:
    """How a pipeline is doing, from its checkpoint and the table's metadata; reads no row and lists nothing.

    Args:
        session: of the pipeline.
        before: the status until now.
        phase: the task that succeeded.
        dag_id: of the run; None: as before.
        report: of a batch that was just committed.
    """
    pipeline, checkpoint = session.pipeline, session.checkpoint
    history = History.of(session.table)
    cursor, opened, head = checkpoint.cursor(), checkpoint.open_batch(), history.head(pipeline.branch)
    cursor_id = None if cursor is None else cursor.snapshot_id
    behind = lag(
        session.table,
        branch=pipeline.branch,
        cursor_snapshot_id=cursor_id,
        is_loading=cursor is not None and cursor.load_part is not None,
    )
    trouble = None if before is None else before.trouble
    delivered = None if cursor_id is None else history.snapshots.get(cursor_id)
    return PipelineStatus(
        pipeline=pipeline.name,
        table=pipeline.table,
        branch=pipeline.branch,
        dag_id=dag_id or (None if before is None else before.dag_id),
        updated_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        cursor_snapshot_id=cursor_id,
        cursor_timestamp=None if delivered is None else _time(delivered.timestamp_ms),
        head_snapshot_id=None if head is None else head.snapshot_id,
        head_timestamp=None if head is None else _time(head.timestamp_ms),
        lag_snapshots=behind.snapshots,
        lag_rows=behind.rows,
        waiting_since=None if behind.since_timestamp_ms is None else _time(behind.since_timestamp_ms),
        open_batch=None if opened is None else opened.batch_number,
        open_since=None if opened is None else opened.opened_at,
        last_batch=None if cursor is None else cursor.batch_number,
        last_committed_at=_committed_at(checkpoint, cursor),
        trouble=None if trouble is None or trouble.is_over_after(phase) else trouble,
        next_expiry=_expiry(session, cursor_id),
        recent=with_batch(() if before is None else before.recent, None if report is None else RecentBatch.of(report)),
    )


def _committed_at(checkpoint: Checkpoint, cursor: Cursor | None) -> str | None:
    commit = None if cursor is None else checkpoint.committed(cursor.batch_number)
    return None if commit is None else commit.committed_at


def _expiry(session: PipelineSession, cursor_snapshot_id: int | None) -> Expiry | None:
    if cursor_snapshot_id is None:
        return None
    at_ms = next_expiry_ms(session.table.metadata, cursor_snapshot_id)
    return None if at_ms is None else Expiry(snapshot_id=cursor_snapshot_id, at=_time(at_ms))


@contextmanager
def _best_effort(pipeline: Pipeline) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is: a page that is late is no reason to stop delivering
        logger.warning("the status of %s could not be written: %s", pipeline.name, error)


def _time(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
