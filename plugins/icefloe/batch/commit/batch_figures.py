"""The figures of a batch that is being committed, added up from the records of its tasks."""

from datetime import UTC, datetime

from icefloe.audit.sums import Sums
from icefloe.batch.batch_delivery import BatchDelivery
from icefloe.batch.distribution import Distribution
from icefloe.batch.lost_nodes import merged_nodes, sentence_about
from icefloe.batch.prove.finished_tasks import FinishedTasks
from icefloe.batch.report import BatchReport, SummaryCheck
from icefloe.units import time_text


def report_of(
    batch: FinishedTasks,
    delivered_sums: Sums,
    *,
    checks: tuple[SummaryCheck, ...],
    warnings: tuple[str, ...],
    delivery: BatchDelivery | None = None,
) -> BatchReport:
    """The report of a batch that is being committed now.

    Args:
        batch: the batch with the results of its tasks.
        delivered_sums: sums of its changes.
        checks: checks against the snapshot summaries.
        warnings: warnings that came up while committing; the report lists them after those of the plan and those
            of lost nodes.
        delivery: the delivery to the sink for which the batch was staged; None: there is no such sink.
    """
    plan, records = batch.plan, batch.records
    shuffled = [record for record in records if record.data is not None]
    lost = merged_nodes(node for phase in batch.phases for node in phase.nodes_lost)
    now = datetime.now(UTC)
    return BatchReport(
        pipeline=plan.pipeline,
        table=plan.table,
        batch_number=plan.batch_number,
        backfill_id=plan.backfill_id,
        route=plan.route,
        after_snapshot_id=plan.after_snapshot_id,
        up_to_snapshot_id=plan.up_to_snapshot_id,
        steps=len(plan.steps),
        changes=plan.changes,
        skipped_replace_snapshots=plan.skipped_replace_snapshots,
        counts=batch.counts,
        rows_read=plan.input_rows,
        bytes_read=sum(record.bytes_read for record in records),
        carried_over_rows=sum(record.carried_over_rows for record in records),
        shuffled_bytes=sum(record.data.size_bytes for record in shuffled if record.data is not None),
        shuffled_rows=sum(record.rows for record in shuffled),
        written_bytes=sum(message.size_bytes for message in batch.messages),
        map_tasks=len(records),
        num_partitions=plan.num_partitions,
        ranges=len(batch.results),
        map_seconds=sum(record.seconds for record in records),
        reduce_seconds=sum(result.seconds for result in batch.results),
        hash_sum=delivered_sums.hash_sum(),
        summary_checks=checks,
        warnings=(*plan.warnings, *map(sentence_about, lost), *warnings),
        committed_at=time_text(now),
        seconds=max(0.0, (now - datetime.fromisoformat(plan.planned_at)).total_seconds()),
        phases=tuple(batch.phases),
        removed_rows_read=sum(record.removed_rows_read for record in records),
        added_rows_read=sum(record.added_rows_read for record in records),
        map_outputs_redone=sum(record.generation for record in records),
        fetched_bytes=sum(result.fetched_bytes for result in batch.results),
        fetched_blocks=sum(result.fetched_blocks for result in batch.results),
        decoded_bytes=sum(record.bytes_decoded for record in records),
        map_task_bytes=Distribution.of({record.map_id: record.bytes_read for record in records}),
        map_task_seconds=Distribution.of({record.map_id: record.seconds for record in records}),
        range_bytes=Distribution.of({result.range_id: result.fetched_bytes for result in batch.results}),
        range_seconds=Distribution.of({result.range_id: result.seconds for result in batch.results}),
        delivery=delivery,
    )
