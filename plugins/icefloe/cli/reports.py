"""``status`` of a pipeline, its last ``batches``, and ``show`` of one batch."""

import json
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.phase_record import PhaseRecord
from icefloe.batch.plan.batch_preview import next_plannable
from icefloe.batch.report import BatchReport
from icefloe.batch.status import PipelineStatus, status_of
from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.records import BatchOutcome, OffsetRecord
from icefloe.cli.pipeline_session import (
    TABLE_IS_MISSING,
    load_named_pipeline,
    open_checkpoint,
    open_session,
    places_here,
)
from icefloe.cli.screen import Screen, seconds_text
from icefloe.documents import dump_document
from icefloe.errors import IcefloeError, UsageError
from icefloe.iceberg.history.history import History
from icefloe.pipeline.model import Pipeline
from icefloe.units import format_bytes, id_json


def status(arguments: Namespace, screen: Screen) -> None:
    """Shows cursor, head, lag, open batch, and the trouble that stops ``run``; reads no rows, writes nothing.

    It exits 0 with trouble too, and with a missing table or branch that the pipeline waits for.
    """
    with screen.under_way("looking"):
        document = _document(load_named_pipeline(arguments))
    screen.facts(_rows(document))
    screen.answer(document)


_NOT_SHOWN: Final = ("version", "dag_id", "updated_at", "recent")


def _document(pipeline: Pipeline) -> dict[str, object]:
    """The status as it is now, and whether a batch could be planned."""
    session, waits_for = _opened(pipeline)
    checkpoint = (session or places_here(pipeline)).checkpoint
    table = None if session is None or waits_for is not None else session.table
    found = status_of(pipeline, checkpoint, table)
    failure = found.trouble
    shown = {name: value for name, value in json.loads(dump_document(found)).items() if name not in _NOT_SHOWN}
    return {
        **shown,
        "lag_seconds": _seconds(found),
        "waits_for": waits_for,
        "trouble": None if session is None else _trouble(session),
        "last_failure": None if failure is None else f"{failure.at} {failure.phase}: {failure.sentence}",
        "sink": pipeline.sink.type,
    }


def _opened(pipeline: Pipeline) -> tuple[PipelineSession | None, str | None]:
    session = None
    try:
        session = open_session(pipeline)
        History.of(session.table).head(pipeline.branch)
    except TABLE_IS_MISSING as error:
        if pipeline.wait_for_table:
            return session, error.sentence
        raise
    return session, None


def _trouble(session: PipelineSession) -> str | None:
    try:
        next_plannable(session)
    except IcefloeError as error:
        is_awaited = session.pipeline.wait_for_table and isinstance(error, TABLE_IS_MISSING)
        return None if is_awaited else error.sentence
    return None


def _seconds(found: PipelineStatus) -> float | None:
    """Wait of the oldest snapshot; None if the cursor is not in the branch's history."""
    if found.waiting_since is None:
        return 0.0 if found.lag_snapshots == 0 else None
    waited = datetime.now(UTC) - datetime.fromisoformat(found.waiting_since)
    return round(max(0.0, waited.total_seconds()), 3)


_UNNAMED: Final = ("batch", "counts")


def _rows(document: Mapping[str, Any], *, above: str = "") -> Iterator[tuple[str, str]]:
    """The single values of a document for people, a nested one behind the name of its mapping."""
    for name, value in document.items():
        if isinstance(value, Mapping):
            yield from _rows(value, above=above if name in _UNNAMED else f"{name.replace('_', ' ')} ")
        elif not isinstance(value, list):
            yield f"{above}{name.replace('_', ' ')}", _in_words(name, value)


def _in_words(name: str, value: Any) -> str:
    """A value with the unit that its name says."""
    if value is None:
        return "-"
    if name.endswith("seconds"):
        return seconds_text(value)
    if "bytes" in name.split("_"):
        return format_bytes(value)
    is_count = type(value) in (int, float) and not name.endswith(("batch", "batch_number"))
    return f"{value:,}" if is_count else str(value)


_COLUMNS: Final = {
    "batch": "batch", "state": "state", "at": "at", "route": "route", "steps": "steps", "inserted": "insert",
    "deleted": "delete", "updated": "update_after", "read": "bytes_read", "took": "seconds",
}  # fmt: skip
_OF_SINK: Final = {"documents": "documents", "dead letters": "dead_letters", "visible after": "lag_seconds"}


def batches(arguments: Namespace, screen: Screen) -> None:
    """Shows the last batches; needs no catalog."""
    pipeline = load_named_pipeline(arguments)
    with screen.under_way("looking"):
        checkpoint = open_checkpoint(pipeline, backfill_id=arguments.backfill)
        documents = list(_documents(checkpoint, limit=arguments.limit))
    if documents:
        delivers = any("delivery" in document for document in documents)
        columns = _COLUMNS | _OF_SINK if delivers else _COLUMNS
        shown = [
            document | document.get("delivery", {}) | {"seconds": document.get("seconds")} for document in documents
        ]
        rows = [[_in_words(key, document.get(key)) for key in columns.values()] for document in shown]
        screen.table(tuple(columns), rows, numbers=set(columns) - {"state", "at", "route"})
    else:
        screen.say(f"{pipeline.name}: no batch yet")
    screen.answer({"pipeline": pipeline.name, "backfill_id": arguments.backfill, "batches": documents})


def _documents(checkpoint: Checkpoint, *, limit: int) -> Iterator[dict[str, Any]]:
    latest = checkpoint.latest_batch()
    if latest is None:
        return
    for number in range(latest, max(-1, latest - limit), -1):
        commit = checkpoint.committed(number)
        if commit is not None:
            yield _committed(BatchReport.load(checkpoint, number), commit.outcome)
        else:
            opened = checkpoint.offset(number)
            steps = None if opened is None else len(opened.steps)
            opened_at = None if opened is None else opened.opened_at
            yield {"batch": number, "state": "open", "at": opened_at, "route": None, "steps": steps}


def _committed(report: BatchReport, outcome: BatchOutcome) -> dict[str, Any]:
    return {
        "batch": report.batch.batch_number,
        "state": "committed" if outcome is BatchOutcome.DELIVERED else outcome.value.replace("_", " "),
        "at": report.committed_at,
        "route": report.route.value,
        "steps": report.batch.steps,
        **report.batch.counts,
        "bytes_read": report.bytes_read,
        "seconds": report.seconds,
        **({} if report.delivery is None else {"delivery": asdict(report.delivery)}),
    }


_PHASES: Final = ("phase", "took", "tries", "tasks run", "found done", "failed", "adopted", "map tasks again")
_SPREADS: Final = ("map_task_bytes", "map_task_seconds", "range_bytes", "range_seconds")
_SPREAD: Final = ("of", "min", "p25", "median", "p75", "max", "largest")


def show(arguments: Namespace, screen: Screen) -> None:
    """Shows the report of a committed batch, or the beginning of an open one; needs no catalog."""
    pipeline = load_named_pipeline(arguments)
    with screen.under_way("looking"):
        checkpoint = open_checkpoint(pipeline, backfill_id=arguments.backfill)
        latest = checkpoint.latest_batch()
        number: int | None = latest if arguments.batch is None else arguments.batch
        if number is None:
            raise UsageError(f"{checkpoint.url} has no batch yet; run the pipeline first", url=checkpoint.url)
        report = None if checkpoint.committed(number) is None else BatchReport.load(checkpoint, number)
        opened = checkpoint.offset(number)
    if report is not None:
        document = json.loads(dump_document(report))
        _show_report(report, document, screen)
    elif opened is not None:
        document = _open_document(opened)
        screen.facts(_rows(document))
    else:
        known = "it has none yet" if latest is None else f"it has batches 0 to {latest}"
        raise UsageError(f"{checkpoint.url} has no batch {number}: {known}; see icefloe batches", batch_number=number)
    screen.answer(document)


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


def _show_report(report: BatchReport, document: Mapping[str, Any], screen: Screen) -> None:
    screen.facts(_rows({name: value for name, value in document.items() if name not in ("version", *_SPREADS)}))
    if report.phases:
        screen.say("")
        screen.table(_PHASES, map(_phase_row, report.phases), numbers=_PHASES[1:])
    spreads = [_spread_row(name, document[name]) for name in _SPREADS if document[name] is not None]
    if spreads:
        screen.say("")
        screen.table(_SPREAD, spreads, numbers=_SPREAD[1:-1])
    for warning in report.warnings:
        screen.say(f"warning: {warning}")


def _phase_row(phase: PhaseRecord) -> Sequence[str]:
    counts = (phase.tasks_run, phase.tasks_found, phase.tasks_failed, phase.tasks_adopted, phase.map_tasks_run_again)
    return (phase.phase, seconds_text(phase.seconds), str(phase.attempts), *(f"{count:,}" for count in counts))


def _spread_row(name: str, spread: Mapping[str, Any]) -> Sequence[str]:
    values = (_in_words(name, spread[each]) for each in ("minimum", "p25", "median", "p75", "maximum"))
    largest = ", ".join(f"{each['number']}: {_in_words(name, each['value'])}" for each in spread["largest"][:3])
    return (name.replace("_", " "), *values, largest)
