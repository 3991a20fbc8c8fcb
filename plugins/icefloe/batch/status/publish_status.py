"""Writing ``status.json``: after a plan, after a commit, and when a task failed. It never fails the task."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.report import BatchReport
from icefloe.batch.status.pin_facts import pins_of
from icefloe.batch.status.pipeline_status import PipelineStatus, RecentBatch, Trouble, with_batch
from icefloe.batch.status.table_facts import TableFacts
from icefloe.checkpoint.ending import Cursor
from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.ownership import OtherOwnerError
from icefloe.checkpoint.records import CommitRecord, Writer
from icefloe.documents import dump_document, load_document
from icefloe.errors import TerminalError, one_line
from icefloe.iceberg.catalog.catalogs import reload_table
from icefloe.pipeline.model import Pipeline
from icefloe.units import now_text

__all__ = ["load_status", "publish_end", "publish_recovery", "publish_status", "publish_trouble"]

logger = logging.getLogger(__name__)


def publish_status(
    session: PipelineSession,
    *,
    phase: str,
    dag_id: str | None = None,
    report: BatchReport | None = None,
    is_stale: bool = False,
) -> PipelineStatus | None:
    """Writes the status of a pipeline and returns it; None if there is none to write. Errors are logged.

    Args:
        session: session of the pipeline.
        phase: the task that succeeded; trouble of it and of earlier tasks is over, unless it is of a later batch.
        dag_id: DAG of the run; None: as before.
        report: report of a batch that this run committed or found committed.
        is_stale: True if the session's table was loaded so long ago that it has to be loaded again.
    """
    status: PipelineStatus | None = None
    with _best_effort(session.pipeline):
        if is_stale:
            session = replace(session, table=reload_table(session.table))
        # After a takeover the status describes the runs of the new owner.
        if (owner := session.checkpoint.owner()) is not None and owner.writer.owner not in (None, session.writer.owner):
            return None
        status = status_of(session, load_status(session.checkpoint), phase=phase, dag_id=dag_id, report=report)
        session.checkpoint.put_status(dump_document(status))
    return status


def publish_trouble(
    checkpoint: Checkpoint,
    pipeline: Pipeline,
    trouble: Trouble,
    *,
    writer: Writer,
    dag_id: str | None = None,
) -> None:
    """Adds a failed task to the status, unless the checkpoint is another deployment's: the trouble is not its own.

    It needs neither table nor catalog, because these may have failed.

    Args:
        checkpoint: of the pipeline.
        pipeline: whose status it is.
        trouble: of the task.
        writer: who ran the task.
        dag_id: DAG of the run, for a pipeline without a status.
    """
    with _best_effort(pipeline):
        checkpoint.refuse_other(writer)
        before = load_status(checkpoint) or PipelineStatus(
            pipeline=pipeline.name, table=pipeline.table, branch=pipeline.branch, dag_id=dag_id, updated_at=trouble.at
        )
        checkpoint.put_status(dump_document(before.with_trouble(trouble)))


def publish_recovery(checkpoint: Checkpoint, pipeline: Pipeline, phase: str, *, writer: Writer) -> None:
    """Takes the trouble of a task from the status: the task goes on, and found that it is over.

    Args:
        checkpoint: of the pipeline.
        pipeline: whose status it is.
        phase: the task's id; trouble of another task stays.
        writer: who runs the task.
    """
    with _best_effort(pipeline):
        checkpoint.refuse_other(writer)
        before = load_status(checkpoint)
        if before is not None and before.trouble is not None and before.trouble.phase == phase:
            checkpoint.put_status(dump_document(replace(before, trouble=None, updated_at=now_text())))


def publish_end(checkpoint: Checkpoint, pipeline: Pipeline, commit: CommitRecord) -> None:
    """Says in the status that the open batch was ended by hand. The rest of it waits for the next plan."""
    with _best_effort(pipeline):
        before = load_status(checkpoint)
        if before is not None and not before.is_past(commit.batch_number):
            after = replace(
                before,
                updated_at=commit.committed_at,
                open_batch=None,
                open_since=None,
                open_run=None,
                trouble=None,
                last_batch=commit.batch_number,
                last_committed_at=commit.committed_at,
            )
            checkpoint.put_status(dump_document(after))


def load_status(checkpoint: Checkpoint) -> PipelineStatus | None:
    """The last status of a pipeline; None if there is none, or none that this release can read."""
    data = checkpoint.status()
    if data is None:
        return None
    try:
        return load_document(PipelineStatus, data, what=f"the status in {checkpoint.url}")
    except TerminalError as error:
        logger.warning("%s; the next batch writes it again", error.sentence)
        return None


def status_of(
    session: PipelineSession,
    before: PipelineStatus | None,
    *,
    phase: str,
    dag_id: str | None = None,
    report: BatchReport | None = None,
) -> PipelineStatus:
    """The status of a pipeline, from its checkpoint and the table's metadata; reads no row and lists nothing.

    Args:
        session: session of the pipeline.
        before: the status until now.
        phase: the task that succeeded.
        dag_id: DAG of the run; None: as before.
        report: report of a batch that this run committed or found committed; what a later batch left stays.
    """
    pipeline, checkpoint = session.pipeline, session.checkpoint
    view = checkpoint.look()
    cursor, opened = view.cursor, view.opened
    cursor_id = None if cursor is None else cursor.snapshot_id
    load_part = None if cursor is None else cursor.load_part
    facts = TableFacts.of(
        session.table,
        branch=pipeline.branch,
        cursor_snapshot_id=cursor_id,
        cursor_timestamp=None if cursor is None else cursor.timestamp,
        is_loading=load_part is not None,
    )
    recent = with_batch(() if before is None else before.recent, None if report is None else RecentBatch.of(report))
    delivery = None if before is None else before.last_delivery
    # A commit that was cleared in Airflow, or that comes late, reports a batch that others have followed.
    if report is not None and report.delivery is not None and recent[-1].batch == report.batch_number:
        delivery = report.delivery
    batch_number = None if report is None else report.batch_number
    return PipelineStatus(
        pipeline=pipeline.name,
        table=pipeline.table,
        branch=pipeline.branch,
        dag_id=dag_id or (None if before is None else before.dag_id),
        updated_at=now_text(),
        cursor_snapshot_id=cursor_id,
        cursor_timestamp=facts.cursor_timestamp,
        head_snapshot_id=facts.head_snapshot_id,
        head_timestamp=facts.head_timestamp,
        lag_snapshots=facts.lag_snapshots,
        lag_rows=facts.lag_rows,
        waiting_since=facts.waiting_since,
        open_batch=None if opened is None else opened.batch_number,
        open_since=None if opened is None else opened.opened_at,
        open_run=None if opened is None else opened.opened_by.run,
        owner=None if view.owner is None else view.owner.writer.owner,
        checkpoint_id=None if view.owner is None else view.owner.checkpoint_id,
        load_part=load_part,
        last_batch=None if cursor is None else cursor.batch_number,
        last_committed_at=_committed_at(checkpoint, cursor),
        trouble=None if before is None else before.trouble_after(phase, batch_number),
        next_expiry=facts.next_expiry,
        pins=pins_of(session.table, pipeline.name, view),
        recent=recent,
        last_delivery=delivery,
    )


def _committed_at(checkpoint: Checkpoint, cursor: Cursor | None) -> str | None:
    commit = None if cursor is None else checkpoint.committed(cursor.batch_number)
    return None if commit is None else commit.committed_at


@contextmanager
def _best_effort(pipeline: Pipeline) -> Iterator[None]:
    try:
        yield
    except OtherOwnerError as error:
        # Not a warning: whoever runs another deployment's pipeline is told so by the error of the run itself.
        logger.debug("the status of %s is not ours: %s", pipeline.name, error.sentence)
    except Exception as error:  # noqa: BLE001 - whatever it is: a page that is late is no reason to stop delivering
        logger.warning("the status of %s could not be written: %s", pipeline.name, one_line(error))
