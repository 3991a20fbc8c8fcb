"""Proves a batch as a whole, and then publishes it: the sink writes the manifest that readers look for."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from icefloe.audit.sums import AuditError, Sums
from icefloe.batch.context.batch_folder import BatchFolder
from icefloe.batch.context.running_batch import RunningBatch
from icefloe.batch.plan_document import Plan
from icefloe.batch.prove.finished_tasks import FinishedTasks, UnfinishedTasksError, staging_phase
from icefloe.batch.report import SummaryCheck
from icefloe.batch.run_settings import RunSettings
from icefloe.batch.stage.range_results import RangeResult
from icefloe.changes.columns import removed_rows
from icefloe.errors import TerminalError
from icefloe.flow import Route
from icefloe.pipeline.option_values import SummaryMismatchOption
from icefloe.sinks.manifest import BatchSummary, DamagedPartsError

__all__ = ["prove_and_publish"]

logger = logging.getLogger(__name__)


def check_summaries(
    plan: Plan, handed_on: Sums, *, on_summary_mismatch: SummaryMismatchOption
) -> tuple[tuple[SummaryCheck, ...], tuple[str, ...]]:
    """Compares inserts less deletes of each step with the summaries of its snapshots.

    Args:
        plan: plan of the batch.
        on_summary_mismatch: setting of the pipeline as it is now.
        handed_on: sums by step of the rows that map tasks handed on. Net changes cannot be used, because they no longer
            show each step.

    Returns:
        A check per step, and a warning for each that differs.

    Raises:
        AuditError: one differs and the pipeline does not accept that.
    """
    counts = handed_on.signed_counts()
    checks = tuple(
        SummaryCheck(change_ordinal=ordinal, expected=expected, found=counts.get(ordinal, 0))
        for ordinal, expected in enumerate(plan.summary_row_deltas)
    )
    sentences = tuple(_sentences(plan, checks))
    if sentences and on_summary_mismatch == "fail":
        raise AuditError(
            f"{sentences[0]}; nothing was committed: if a writer is known to write wrong summaries, set "
            "on_summary_mismatch: warn",
            sentences=sentences,
        )
    return checks, sentences


def _sentences(plan: Plan, checks: Sequence[SummaryCheck]) -> list[str]:
    return [
        f"snapshot {plan.steps[check.change_ordinal].commit_snapshot_id} of {plan.table} says that it changed the "
        f"number of rows by {check.expected}, its data files say by {check.found}"
        for check in checks
        if check.expected is not None and check.expected != check.found
    ]


class RemovedRowsError(TerminalError):
    """A batch of a pipeline with ``changes: append_only`` removes rows."""

    batch_number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenSums:
    """A batch whose files are whole, with what proves them.

    Attributes:
        batch: the results of its tasks.
        sums: sums of its changes.
        checks: checks against the snapshot summaries.
        warnings: warnings of these checks.
    """

    batch: FinishedTasks
    sums: Sums
    checks: tuple[SummaryCheck, ...]
    warnings: tuple[str, ...]


def prove_and_publish(running: RunningBatch) -> ProvenSums:
    """Audits a batch whose tasks are done, and writes its manifest. Repeating it changes nothing.

    Raises:
        UnfinishedTasksError: a task has not finished yet, or its part is gone or cut.
        RemovedRowsError: the pipeline takes inserts alone, and the batch removes rows.
        AuditError: the delivered changes do not equal the rows read, or the numbers in the snapshot summaries.
    """
    plan = running.plan
    batch = FinishedTasks.of(running.folder, delivers=bool(running.settings.delivery))
    sums = batch.audited()
    _refuse_removed_rows(batch, running.settings)
    checks, warnings = check_summaries(plan, batch.handed_on, on_summary_mismatch=running.settings.on_summary_mismatch)
    try:
        running.folder_of_changes.commit(_summary(batch, sums), batch.messages)
    except DamagedPartsError as damage:
        _forget(running.folder, batch, damage)
        phase = staging_phase(plan)
        raise UnfinishedTasksError(
            f"{damage.sentence}; run again, or in Airflow clear {phase} and its downstream tasks: those parts are "
            "written again",
            phase=phase,
        ) from damage
    return ProvenSums(batch=batch, sums=sums, checks=checks, warnings=warnings)


def _refuse_removed_rows(batch: FinishedTasks, settings: RunSettings) -> None:
    """Stops a batch before it has a manifest, so that it can still be abandoned."""
    removed, plan = removed_rows(batch.counts), batch.plan
    if removed and settings.changes == "append_only" and settings.on_removed_rows == "fail":
        raise RemovedRowsError(
            f"batch {plan.batch_number} of {plan.pipeline} removes or updates {removed:,} rows, and changes is "
            "append_only: set on_removed_rows: skip to leave out the commits that do, or leave them out by icefloe "
            f"abandon {plan.pipeline} and icefloe set-cursor",
            batch_number=plan.batch_number,
            key="changes",
        )


def _forget(folder: BatchFolder, batch: FinishedTasks, damage: DamagedPartsError) -> None:
    """Lets the tasks whose parts are damaged run again; the others are adopted."""
    numbers = set(damage.numbers)
    logger.warning("batch %d: parts %s are written again", batch.plan.batch_number, sorted(numbers))
    if batch.plan.route is Route.SHUFFLE:
        RangeResult.delete(folder.store, sorted(numbers))
        return
    for record in batch.records:
        if record.map_id in numbers:
            folder.map_outputs.void(record.map_id, record.generation, damage.sentence)


def _summary(batch: FinishedTasks, sums: Sums) -> BatchSummary:
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
        hash_sum=sums.hash_sum(),
        hash_key=plan.hash_key,
    )
