"""Commit: the batch is audited as a whole, made whole at the sink, and recorded as done."""

import logging
from dataclasses import replace

from icefloe.audit.sums import Sums
from icefloe.batch.commit.delivered_batch import DeliveredBatch, UndeliveredError, delivering_phase
from icefloe.batch.commit.report import BatchReport, keep_report, load_report
from icefloe.batch.commit.summary_check import check_summaries
from icefloe.batch.context.batch_folder import BatchFolder
from icefloe.batch.context.running_batch import RunningBatch
from icefloe.batch.phase_record import PhaseRecord, PhaseTally
from icefloe.batch.stage.range_results import delete_range_results
from icefloe.checkpoint.records import CommitRecord
from icefloe.flow import Route
from icefloe.sinks.sink import BatchSummary, DamagedPartsError

__all__ = ["commit_batch"]

logger = logging.getLogger(__name__)


def commit_batch(running: RunningBatch) -> BatchReport:
    """Commits a batch whose tasks are done. For a batch that is already committed it only returns the report.

    Raises:
        UndeliveredError: a task has not delivered yet, or its part is gone or cut.
        AuditError: the delivered changes do not equal the rows read, or the numbers in the snapshot summaries.
    """
    plan = running.plan
    if running.checkpoint.committed(plan.batch_number) is not None:
        return load_report(running.checkpoint, plan.batch_number)
    running.checkpoint.refuse_other(running.settings.writer)
    tally = PhaseTally()
    running.requests.taken()
    batch = DeliveredBatch.of(running.folder)
    delivered_sums = batch.audited()
    checks, warnings = check_summaries(plan, batch.handed_on, on_summary_mismatch=running.settings.on_summary_mismatch)
    report = BatchReport.of(batch, delivered_sums, checks=checks, warnings=warnings)
    try:
        running.sink.commit(_summary(batch, delivered_sums), batch.messages)
    except DamagedPartsError as damage:
        _forget(running.folder, batch, damage)
        phase = delivering_phase(plan)
        raise UndeliveredError(
            f"{damage.sentence}; run again, or in Airflow clear {phase} and its downstream tasks: those parts are "
            "written again",
            phase=phase,
        ) from damage
    tally.requests = running.requests.taken()
    committing = tally.added_to(PhaseRecord(phase="commit", attempts=1))
    report = replace(report, phases=(*report.phases, committing))
    kept = keep_report(running.checkpoint, report)
    # Last: a run that is killed before this finds the batch open, and finds the sink and the report done.
    running.checkpoint.create_commit(
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
    logger.info("batch %d of %s: committed, %s", plan.batch_number, plan.pipeline, dict(report.counts))
    return kept


def _forget(folder: BatchFolder, batch: DeliveredBatch, damage: DamagedPartsError) -> None:
    """Lets the tasks whose parts are damaged run again; the others are adopted."""
    numbers = set(damage.numbers)
    logger.warning("batch %d: parts %s are delivered again", batch.plan.batch_number, sorted(numbers))
    if batch.plan.route is Route.SHUFFLE:
        delete_range_results(folder.store, sorted(numbers))
        return
    for record in batch.records:
        if record.map_id in numbers:
            folder.map_outputs.void(record.map_id, record.generation, damage.sentence)


def _summary(batch: DeliveredBatch, delivered_sums: Sums) -> BatchSummary:
    plan = batch.plan
    return BatchSummary(
        pipeline=plan.pipeline,
        table=plan.table,
        batch_number=plan.batch_number,
        after_snapshot_id=plan.after_snapshot_id,
        up_to_snapshot_id=plan.up_to_snapshot_id,
        steps=len(plan.steps),
        rows=sum(message.rows for message in batch.messages),
        counts=batch.counts,
        hash_sum=delivered_sums.hash_sum(),
    )
