"""Commit: the batch is audited as a whole, made whole at the sink, and recorded as done."""

import json
import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from icefloe.audit.sums import AuditError, Sums
from icefloe.batch.coalesce_map_outputs import load_coalesce_plan
from icefloe.batch.context import BatchContext
from icefloe.batch.document import Plan, Route
from icefloe.batch.report import BatchReport, SummaryCheck, load_report
from icefloe.batch.results import RangeResult, delivered
from icefloe.changes.columns import ChangeType
from icefloe.checkpoint.records import CommitRecord
from icefloe.documents import dump_document, load_document
from icefloe.errors import TerminalError, TransientError
from icefloe.shuffle.commit_record import MapOutputRecord
from icefloe.sinks.sink import BatchSummary, CommitMessage

__all__ = ["commit_batch"]

logger = logging.getLogger(__name__)


def commit_batch(context: BatchContext) -> BatchReport:
    """Commits a batch whose tasks are done; of a batch that is committed it only returns the report.

    Raises:
        TransientError: a task has not delivered yet.
        AuditError: what was delivered does not equal what was read, or what the snapshot summaries say.
    """
    plan = context.plan
    if context.checkpoint is None or context.sink is None:
        raise TerminalError(f"batch {plan.batch_number} of {plan.pipeline} has no checkpoint and no sink to commit to")
    if context.checkpoint.committed(plan.batch_number) is not None:
        return load_report(context.checkpoint, plan.batch_number)
    records = context.map_outputs.records(range(plan.num_map_tasks))
    is_shuffled = plan.route is Route.SHUFFLE
    results = _range_results(context) if is_shuffled else []
    messages = [result.message for result in results] if is_shuffled else [_message(record) for record in records]
    left = _audited(context, records, results)
    checks, warnings = _check_summaries(plan, left)
    report = _report(context, records, results, messages, left, checks, warnings)
    context.sink.commit(_summary(plan, messages, left), messages)
    context.checkpoint.put_report(plan.batch_number, dump_document(report))
    context.checkpoint.create_commit(
        CommitRecord(
            batch_number=plan.batch_number,
            after_snapshot_id=plan.after_snapshot_id,
            up_to_snapshot_id=plan.up_to_snapshot_id,
            route=plan.route,
            steps=len(plan.steps),
            counts=report.counts,
            committed_at=report.committed_at,
        )
    )
    logger.info("batch %d of %s: committed, %s", plan.batch_number, plan.pipeline, dict(report.counts))
    return report


def _range_results(context: BatchContext) -> list[RangeResult]:
    found = [(each.range_id, delivered(context.store, each.range_id)) for each in load_coalesce_plan(context).ranges]
    missing = [range_id for range_id, result in found if result is None]
    if missing:
        raise TransientError(
            f"{len(missing)} of {len(found)} ranges of batch {context.plan.batch_number} have not delivered (the "
            f"first: {missing[0]}); run shuffle_read again, it redoes only those",
            range_ids=missing,
        )
    return [result for _, result in found if result is not None]


def _message(record: MapOutputRecord) -> CommitMessage:
    return load_document(
        CommitMessage, json.dumps(record.part).encode(), what=f"the part of commit record {record.map_id}"
    )


def _audited(context: BatchContext, records: Sequence[MapOutputRecord], results: Sequence[RangeResult]) -> Sums:
    """The sums of what left, proven equal to those of what the map tasks handed on."""
    handed_on, left = Sums(), Sums()
    for record in records:
        handed_on.merge(Sums(record.ordinals))
    if context.plan.route is not Route.SHUFFLE:
        return handed_on
    for result in results:
        left.merge(Sums(result.sums))
    left.require(handed_on, what=f"batch {context.plan.batch_number} of {context.plan.pipeline}")
    return left


def _check_summaries(plan: Plan, left: Sums) -> tuple[tuple[SummaryCheck, ...], tuple[str, ...]]:
    """Compares inserts less deletes of each step with what the table's snapshot summaries say."""
    counts = left.signed_counts()
    checks = tuple(
        SummaryCheck(change_ordinal=ordinal, expected=expected, found=counts.get(ordinal, 0))
        for ordinal, expected in enumerate(plan.summary_row_deltas)
    )
    sentences = tuple(
        f"snapshot {plan.steps[check.change_ordinal].commit_snapshot_id} of {plan.table} says that it changed the "
        f"number of rows by {check.expected}, its data files say by {check.found}"
        for check in checks
        if check.expected is not None and check.expected != check.found
    )
    if sentences and plan.on_summary_mismatch == "fail":
        raise AuditError(
            f"{sentences[0]}; nothing was committed: if a writer is known to write wrong summaries, set "
            "on_summary_mismatch: warn",
            sentences=sentences,
        )
    return checks, sentences


def _summary(plan: Plan, messages: Sequence[CommitMessage], left: Sums) -> BatchSummary:
    return BatchSummary(
        pipeline=plan.pipeline,
        table=plan.table,
        batch_number=plan.batch_number,
        after_snapshot_id=plan.after_snapshot_id,
        up_to_snapshot_id=plan.up_to_snapshot_id,
        steps=len(plan.steps),
        rows=sum(message.rows for message in messages),
        counts=_counts(messages),
        hash_sum=left.hash_sum(),
    )


def _counts(messages: Sequence[CommitMessage]) -> dict[str, int]:
    names = [each.name.lower() for each in ChangeType]
    return {name: sum(message.counts.get(name, 0) for message in messages) for name in names}


def _report(
    context: BatchContext,
    records: Sequence[MapOutputRecord],
    results: Sequence[RangeResult],
    messages: Sequence[CommitMessage],
    left: Sums,
    checks: tuple[SummaryCheck, ...],
    warnings: tuple[str, ...],
) -> BatchReport:
    plan = context.plan
    return BatchReport(
        pipeline=plan.pipeline,
        table=plan.table,
        batch_number=plan.batch_number,
        backfill_id=plan.backfill_id,
        route=plan.route,
        after_snapshot_id=plan.after_snapshot_id,
        up_to_snapshot_id=plan.up_to_snapshot_id,
        steps=len(plan.steps),
        skipped_replace_snapshots=plan.skipped_replace_snapshots,
        counts=_counts(messages),
        rows_read=plan.input_rows,
        bytes_read=sum(record.bytes_read for record in records),
        carried_over_rows=sum(record.carried_over_rows for record in records),
        shuffled_bytes=sum(record.data.size_bytes for record in records if record.data is not None),
        shuffled_rows=sum(record.rows for record in records if record.data is not None),
        written_bytes=sum(message.size_bytes for message in messages),
        map_tasks=len(records),
        num_partitions=plan.num_partitions,
        ranges=len(results),
        map_seconds=sum(record.seconds for record in records),
        reduce_seconds=sum(result.seconds for result in results),
        hash_sum=left.hash_sum(),
        summary_checks=checks,
        warnings=(*plan.warnings, *warnings),
        committed_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
    )
