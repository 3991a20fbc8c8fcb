"""Commit: the batch is proven, made whole at the sink, and recorded as done."""

import logging
from dataclasses import replace

from icefloe.batch.batch_delivery import BatchDelivery
from icefloe.batch.commit.batch_figures import report_of
from icefloe.batch.context.running_batch import RunningBatch
from icefloe.batch.deliver.delivery_records import DeliveryRecords
from icefloe.batch.phase_record import PhaseRecord, PhaseTally
from icefloe.batch.prove.finished_tasks import UnfinishedTasksError
from icefloe.batch.prove.prove_and_publish import prove_and_publish
from icefloe.batch.report import BatchReport
from icefloe.checkpoint.cursor import BatchOutcome
from icefloe.checkpoint.records import CommitRecord
from icefloe.flow import Phase

__all__ = ["commit_batch"]

logger = logging.getLogger(__name__)


def commit_batch(running: RunningBatch) -> BatchReport:
    """Commits a batch whose tasks are done. For a batch that is already committed it only returns the report.

    Raises:
        UnfinishedTasksError: a task has not written its part yet, or the part is gone or cut; or the batch was not yet
            delivered to the sink for which it was staged.
        AuditError: the delivered changes do not equal the rows read, or the numbers in the snapshot summaries.
        BatchCommittedError: a reset gave the batch up meanwhile.
    """
    plan = running.plan
    if running.checkpoint.committed(plan.batch_number) is not None:
        return BatchReport.load(running.checkpoint, plan.batch_number)
    running.checkpoint.refuse_other(running.settings.writer)
    tally = PhaseTally()
    running.requests.taken()
    # The proof also makes the batch whole at its folder: it writes the manifest, from which on readers see it.
    proven = prove_and_publish(running)
    report = report_of(
        proven.batch,
        proven.sums,
        checks=proven.checks,
        warnings=proven.warnings,
        delivery=_delivery(running) if running.settings.delivery else None,
    )
    tally.requests = running.requests.taken()
    committing = tally.added_to(PhaseRecord(phase="commit", attempts=1))
    report = replace(report, phases=(*report.phases, committing))
    is_first = report.keep(running.checkpoint)
    kept = report if is_first else BatchReport.load(running.checkpoint, plan.batch_number)
    # Last: a run that is killed before this finds the batch open, and finds the sink and the report done.
    commit = running.checkpoint.create_commit(
        CommitRecord(
            batch_number=plan.batch_number,
            checkpoint_id=plan.checkpoint_id,
            committed_by=running.settings.writer,
            after_snapshot_id=plan.after_snapshot_id,
            up_to_snapshot_id=plan.up_to_snapshot_id,
            route=plan.route,
            steps=len(plan.steps),
            counts=report.counts,
            committed_at=report.committed_at,
            load_part=plan.steps[0].load_part if plan.steps else None,
        )
    )
    if commit.outcome is not BatchOutcome.DELIVERED:
        # A reset gave the batch up as this run delivered it.
        running.refuse_committed()
    logger.info("batch %d of %s: committed, %s", plan.batch_number, plan.pipeline, dict(report.counts))
    return kept


def _delivery(running: RunningBatch) -> BatchDelivery:
    """The record that the batch is visible at the sink for which it was staged.

    Raises:
        UnfinishedTasksError: there is none yet.
    """
    found = DeliveryRecords(running.folder.store).batch()
    if found is None:
        raise UnfinishedTasksError(
            f"batch {running.plan.batch_number} of {running.plan.pipeline} is proven, but not yet delivered to "
            f"{running.settings.delivery['type']}; run again, or in Airflow clear {Phase.DELIVER} and its downstream "
            "tasks: parts that were delivered are kept",
            phase=Phase.DELIVER,
        )
    return found
