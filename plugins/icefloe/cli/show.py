"""``icefloe show``: everything that is known of one batch."""

import json
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from icefloe.batch.batch_delivery import BatchDelivery
from icefloe.batch.distribution import Distribution
from icefloe.batch.phase_record import PhaseRecord
from icefloe.batch.report import BatchReport
from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.records import OffsetRecord
from icefloe.cli.pipeline_session import load_named_pipeline, open_checkpoint
from icefloe.cli.screen import Screen
from icefloe.cli.shown_values import batch_text, id_text, seconds_text
from icefloe.documents import dump_document
from icefloe.errors import UsageError
from icefloe.units import format_bytes, id_json

_PHASES: Final = ("phase", "took", "tries", "tasks run", "found done", "failed", "adopted", "map tasks again")
_SPREAD: Final = ("of", "min", "p25", "median", "p75", "max", "largest")


def show(arguments: Namespace, screen: Screen) -> int:
    """Shows the report of a committed batch, or the beginning of an open one; needs neither catalog nor table.

    Raises:
        UsageError: there is no such batch.
    """
    pipeline = load_named_pipeline(arguments)
    with screen.under_way("looking"):
        checkpoint = open_checkpoint(pipeline, backfill_id=arguments.backfill)
        number = _number(checkpoint, arguments.batch)
        report = None if checkpoint.committed(number) is None else BatchReport.load(checkpoint, number)
        opened = checkpoint.offset(number)
    if report is not None:
        _show_report(report, screen)
        document = json.loads(dump_document(report))
    elif opened is not None:
        document = _open_document(opened)
        screen.facts((name.replace("_", " "), "-" if value is None else str(value)) for name, value in document.items())
    else:
        raise UsageError(_unknown(checkpoint, number), batch_number=number)
    if arguments.json:
        screen.json(document)
    return 0


def _number(checkpoint: Checkpoint, given: int | None) -> int:
    """The batch that was asked for, otherwise the latest."""
    if given is not None:
        return given
    latest = checkpoint.latest_batch()
    if latest is None:
        raise UsageError(f"{checkpoint.url} has no batch yet; run the pipeline first", url=checkpoint.url)
    return latest


def _unknown(checkpoint: Checkpoint, number: int) -> str:
    latest = checkpoint.latest_batch()
    known = "it has none yet" if latest is None else f"it has batches 0 to {latest}"
    return f"{checkpoint.url} has no batch {number}: {known}; see icefloe batches"


def _open_document(opened: OffsetRecord) -> dict[str, object]:
    return {
        "batch_number": opened.batch_number,
        "is_open": True,
        "opened_at": opened.opened_at,
        "opened_by": str(opened.opened_by),
        "after_snapshot_id": id_json(opened.after_snapshot_id),
        "up_to_snapshot_id": id_json(opened.up_to_snapshot_id),
        "steps": len(opened.steps),
        "skipped_replace_snapshots": opened.spec.skipped_replace_snapshots,
    }


def _show_report(report: BatchReport, screen: Screen) -> None:
    screen.facts(_facts(report))
    if report.phases:
        screen.say("")
        screen.table(_PHASES, map(_phase_row, report.phases), numbers=_PHASES[1:])
    spreads = list(_spreads(report))
    if spreads:
        screen.say("")
        screen.table(_SPREAD, spreads, numbers=_SPREAD[1:-1])
    for warning in report.warnings:
        screen.say(f"warning: {warning}")


def _facts(report: BatchReport) -> Iterator[tuple[str, str]]:
    yield "batch", batch_text(report.batch_number, report.backfill_id)
    yield "committed at", report.committed_at
    yield "took", seconds_text(report.seconds)
    yield "route", report.route.value
    yield "after snapshot", id_text(report.after_snapshot_id)
    yield "up to snapshot", id_text(report.up_to_snapshot_id)
    yield "steps", f"{report.steps:,}, and {report.skipped_replace_snapshots:,} replace snapshots skipped"
    yield "read", f"{report.rows_read:,} rows, {format_bytes(report.bytes_read)}"
    if report.decoded_bytes is not None:
        yield "decoded", format_bytes(report.decoded_bytes)
    yield "carried over", f"{report.carried_over_rows:,} rows"
    yield "shuffled", f"{report.shuffled_rows:,} rows, {format_bytes(report.shuffled_bytes)}"
    if report.fetched_blocks is not None and report.fetched_bytes is not None:
        yield "fetched", f"{report.fetched_blocks:,} blocks, {format_bytes(report.fetched_bytes)}"
    yield "written", format_bytes(report.written_bytes)
    yield from ((change, f"{count:,}") for change, count in report.counts.items())
    yield "map tasks", f"{report.map_tasks:,}"
    if report.map_outputs_redone:
        yield "map outputs made again", f"{report.map_outputs_redone:,}"
    yield "ranges", f"{report.ranges:,} of {report.num_partitions:,} partitions"
    if report.delivery is not None:
        yield from _delivery_facts(report.delivery)


def _delivery_facts(delivery: BatchDelivery) -> Iterator[tuple[str, str]]:
    yield "delivered to", f"{delivery.sink} {delivery.url}"
    yield "documents", f"{delivery.documents:,}, {delivery.repeated:,} of them were there already"
    yield "sent", f"{format_bytes(delivery.bytes)}, {delivery.retries:,} requests again"
    yield "refused for now", f"{delivery.refused:,}"
    yield "dead letters", f"{delivery.dead_letters:,}"
    if delivery.superseded:
        yield "superseded", f"{delivery.superseded:,}"
    yield "visible at", delivery.visible_at
    yield "visible after", seconds_text(delivery.lag_seconds)


def _phase_row(phase: PhaseRecord) -> Sequence[str]:
    counts = (phase.tasks_run, phase.tasks_found, phase.tasks_failed, phase.tasks_adopted, phase.map_tasks_run_again)
    return (phase.phase, seconds_text(phase.seconds), str(phase.attempts), *(f"{count:,}" for count in counts))


def _spreads(report: BatchReport) -> Iterator[Sequence[str]]:
    for name, spread, text in (
        ("map task bytes", report.map_task_bytes, format_bytes),
        ("map task time", report.map_task_seconds, seconds_text),
        ("range bytes", report.range_bytes, format_bytes),
        ("range time", report.range_seconds, seconds_text),
    ):
        if spread is not None:
            yield _spread_row(name, spread, text)


def _spread_row(name: str, spread: Distribution, text: Callable[[float], str]) -> Sequence[str]:
    values = (spread.minimum, spread.p25, spread.median, spread.p75, spread.maximum)
    largest = ", ".join(f"{extreme.number}: {text(extreme.value)}" for extreme in spread.largest[:3])
    return (name, *map(text, values), largest)
