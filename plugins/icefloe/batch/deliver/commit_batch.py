"""Commit: the batch is proven, made whole at the sink, and recorded as done."""

import json
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from icefloe.batch.context.batch_folder import UnfinishedTasksError
from icefloe.batch.context.references import BatchReference, load_delivery
from icefloe.batch.context.running_batch import RunningBatch
from icefloe.batch.deliver.prove import FinishedTasks, prove_and_publish
from icefloe.batch.phase_record import PhaseRecord, PhaseTally, load_phases, merged_nodes
from icefloe.batch.plan_document import PLAN
from icefloe.batch.report import BatchDelivery, BatchReport, Distribution
from icefloe.checkpoint.records import BatchOutcome, CommitRecord, Ending
from icefloe.errors import IcefloeError, TerminalError
from icefloe.flow import Phase
from icefloe.node.machine import Machine
from icefloe.node.node_folder import split_node_key
from icefloe.storage.requests import map_parallel
from icefloe.storage.store import Store
from icefloe.units import natural, time_text

__all__ = ["clean_up_finished", "commit_batch", "delete_at_nodes", "try_to_clean_up"]

logger = logging.getLogger(__name__)

_INDEX: Final = re.compile(r"(?P<attempt>(?P<record>(.+/)?[0-9]+/[0-9]+\.[0-9]+)\.[0-9A-Za-z_-]+)\.index")


def try_to_clean_up(reference: BatchReference) -> None:
    """`clean_up_finished`; files that remain are no error of a committed batch."""
    try:
        clean_up_finished(reference)
    except IcefloeError as error:
        logger.warning("the batch is committed, but its shuffle files remain: %s", error)


def clean_up_finished(reference: BatchReference) -> int:
    """Deletes the folder of a committed batch and of batches before it; returns the number of objects.

    Folders of killed runs are found by one listing. Every batch before a committed batch is committed too. Plans are
    deleted last, so that an interrupted cleanup can be repeated. No plan is read: a late run may have taken it back.
    """
    number, batches = reference.batch_number, reference.batches
    commit = reference.checkpoint.committed(number)
    if commit is None:
        raise TerminalError(
            f"batch {number} is not committed: its files are kept for the rerun ({batches.url}/{number})",
            batch_number=number,
        )
    keys = [stored.key for stored in batches.list("") if _is_up_to(number, stored.key)]
    over = sorted({str(number), *(key.partition("/")[0] for key in keys)})
    plans = [f"{batch}/{PLAN}" for batch in over]
    delete_at_nodes(batches, keys)
    batches.delete(key for key in keys if key not in plans)
    unfinished = sum(batches.remove_unfinished(batch, is_over=True) for batch in over)
    batches.delete(plans)
    logger.info("batches %s: deleted %d objects from %s", ", ".join(over), len(keys) + unfinished, batches.url)
    # Until a batch is delivered, the staged files alone say that a batch before was given up half delivered.
    staged = _delete_staged(reference) if commit.outcome is BatchOutcome.DELIVERED else 0
    return len(keys) + unfinished + staged


def _delete_staged(reference: BatchReference) -> int:
    """Deletes earlier staged batches if their time is over; returns the number of objects."""
    keep_seconds = reference.settings.pipeline.keep_staged
    if not reference.settings.delivers or keep_seconds is None:
        return 0
    deleted = reference.folder_of_changes.delete_before(reference.batch_number, age=timedelta(seconds=keep_seconds))
    logger.info("deleted %d objects of staged batches before batch %d", deleted, reference.batch_number)
    return deleted


def delete_at_nodes(batches: Store, keys: Sequence[str]) -> None:
    """Deletes what is at nodes, by the keys of folders of batches; as far as they answer: the rest expires."""
    records = map_parallel(batches.find, _records_of_nodes(keys))
    places: dict[str, set[str]] = {}
    for record in records:
        for address, batch in () if record is None else _node_places(record):
            places.setdefault(address, set()).add(batch)
    machine = Machine()

    def delete_at(address: str) -> None:
        for batch in sorted(places[address]):
            machine.delete_batch(address, batch)

    try:
        # Of many nodes that are away, each is waited for as long as one is.
        map_parallel(delete_at, sorted(places))
    except TerminalError as error:
        logger.warning("nodes keep the files of this batch until they expire: %s", error.sentence)


def _records_of_nodes(keys: Sequence[str]) -> list[str]:
    """Those with an index file and no data file here: ``transfer`` may have been edited since the batch was opened."""
    there = set(keys)
    indexes = filter(None, map(_INDEX.fullmatch, keys))
    return sorted({each["record"] for each in indexes if f"{each['attempt']}.data" not in there} & there)


def _node_places(record: bytes) -> Iterator[tuple[str, str]]:
    """The node that a commit record names, and the folder there; nothing if it names none."""
    with suppress(ValueError, TypeError, KeyError):  # a damaged record is of no batch that is open
        address, path = split_node_key(str(json.loads(record)["data"]["key"]))
        if address:
            yield address, path.rpartition("/")[0]


def _is_up_to(number: int, key: str) -> bool:
    batch = natural(key.partition("/")[0])
    return batch is not None and batch <= number


def report_of(batch: FinishedTasks, phases: Sequence[PhaseRecord], delivery: BatchDelivery | None) -> BatchReport:
    """The report of a batch that is being committed now."""
    plan, records = batch.plan, batch.records
    shuffled = [record for record in records if record.data is not None]
    lost = merged_nodes(node for phase in phases for node in phase.nodes_lost)
    now = datetime.now(UTC)
    return BatchReport(
        batch=batch.summary,
        backfill_id=plan.backfill_id,
        route=plan.route,
        changes=plan.spec.changes,
        skipped_replace_snapshots=plan.spec.skipped_replace_snapshots,
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
        summary_checks=batch.checks,
        warnings=(*plan.warnings, *(node.sentence for node in lost), *batch.warnings),
        committed_at=time_text(now),
        seconds=max(0.0, (now - datetime.fromisoformat(plan.planned_at)).total_seconds()),
        phases=tuple(phases),
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


def commit_batch(running: RunningBatch) -> BatchReport:
    """Commits a batch whose tasks are done; a committed batch only returns its report.

    Raises:
        UnfinishedTasksError: a part is missing or cut, or the staged batch is not delivered yet.
        TerminalError: the delivered changes do not equal the rows read, or the numbers in the snapshot summaries.
    """
    plan = running.plan
    if running.checkpoint.committed(plan.batch_number) is not None:
        return BatchReport.load(running.checkpoint, plan.batch_number, backfill_id=plan.backfill_id)
    running.checkpoint.refuse_other(running.settings.writer)
    tally = PhaseTally.of("commit")
    running.requests.taken()
    # The proof also makes the batch whole at its folder: it writes the manifest, from which on readers see it.
    proven = prove_and_publish(running)
    delivers = running.settings.delivers
    phases = load_phases(running.folder.store, plan.route, running.settings.last_tasks)
    report = report_of(proven, phases, _delivery(running) if delivers else None)
    tally.record.requests = running.requests.taken()
    report = replace(report, phases=(*report.phases, tally.ended()))
    is_first = report.keep(running.checkpoint, plan.checkpoint_id)
    kept = report if is_first else BatchReport.load(running.checkpoint, plan.batch_number, backfill_id=plan.backfill_id)
    # Last: a run that is killed before this finds the batch open, and finds the sink and the report done.
    commit = running.checkpoint.create_commit(
        CommitRecord(
            checkpoint_id=plan.checkpoint_id,
            ending=Ending.delivered(plan.batch_number, plan.spec.up_to_snapshot_id),
            committed_by=running.settings.writer,
            after_snapshot_id=plan.spec.after_snapshot_id,
            load_part=plan.spec.load_part,
            route=plan.route,
            steps=len(plan.spec.steps),
            counts=report.batch.counts,
            committed_at=report.committed_at,
        )
    )
    if commit.outcome is not BatchOutcome.DELIVERED:
        # A reset gave the batch up as this run delivered it.
        running.refuse_committed()
    logger.info("batch %d of %s: committed, %s", plan.batch_number, plan.pipeline, dict(report.batch.counts))
    return kept


def _delivery(running: RunningBatch) -> BatchDelivery:
    """The delivery of a staged batch. `UnfinishedTasksError` if there is none yet."""
    found = load_delivery(running.folder.store)
    if found is None:
        raise UnfinishedTasksError.at(
            Phase.DELIVER,
            f"batch {running.plan.batch_number} of {running.plan.pipeline} is proven, but not yet delivered to "
            f"{running.settings.pipeline.sink.type}",
            then="parts that were delivered are kept",
        )
    return found
