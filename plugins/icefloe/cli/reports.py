"""``status`` of a pipeline, its last ``batches``, and ``show`` of one batch."""

import json
from argparse import Namespace
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.phase_record import PhaseRecord, load_phases
from icefloe.batch.plan.batch_preview import TableCheck
from icefloe.batch.report import BatchReport
from icefloe.batch.status import PipelineStatus
from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.records import BatchOutcome, OffsetRecord
from icefloe.cli.pipeline_session import awaited, load_named_pipeline, open_session, places_here
from icefloe.cli.screen import Screen
from icefloe.documents import dump_document
from icefloe.errors import IcefloeError, UsageError
from icefloe.iceberg.catalog.catalogs import UnknownTableError
from icefloe.pipeline.model import Pipeline
from icefloe.units import id_json


def status(arguments: Namespace, screen: Screen) -> None:
    """Shows cursor, head, lag, open batch, and the trouble that stops ``run``; reads no rows, writes nothing."""
    # It exits 0 with trouble too, and with a missing table or branch that the pipeline waits for.
    with screen.under_way("looking"):
        document = _document(load_named_pipeline(arguments))
    screen.facts(document)
    screen.answer(document)


_NOT_SHOWN: Final = ("version", "dag_id", "updated_at", "recent")


def _document(pipeline: Pipeline) -> dict[str, object]:
    """The status as it is now, and whether a batch could be planned."""
    session, waits_for = _opened(pipeline)
    checkpoint = (session or places_here(pipeline)).checkpoint
    history = None if session is None or waits_for is not None else session.table.history
    found = PipelineStatus.now(pipeline, checkpoint, history)
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
        session.table.history.head(pipeline.branch)
    except UnknownTableError as error:
        if pipeline.wait_for_table:
            return session, error.sentence
        raise
    return session, None


def _trouble(session: PipelineSession) -> str | None:
    try:
        with awaited(session.pipeline):
            TableCheck(session=session).next_batch_number()
    except IcefloeError as error:
        return error.sentence
    return None


def _seconds(found: PipelineStatus) -> float | None:
    """Wait of the oldest snapshot; None if the cursor is not in the branch's history."""
    if found.waiting_since is None:
        return 0.0 if found.lag_snapshots == 0 else None
    waited = datetime.now(UTC) - datetime.fromisoformat(found.waiting_since)
    return round(max(0.0, waited.total_seconds()), 3)


_COLUMNS: Final = (
    "batch", "state", "at", "route", "steps", "insert", "delete", "update_after", "bytes_read", "seconds",
)  # fmt: skip
_OF_SINK: Final = ("documents", "dead_letters", "lag_seconds")


def batches(arguments: Namespace, screen: Screen) -> None:
    """Shows the last batches; needs no catalog."""
    pipeline = load_named_pipeline(arguments)
    with screen.under_way("looking"):
        checkpoint = places_here(pipeline, backfill_id=arguments.backfill).checkpoint
        documents = list(_documents(checkpoint, arguments))
    if not documents:
        screen.say(f"{pipeline.name}: no batch yet")
    delivers = any("delivery" in document for document in documents)
    rows = [document.get("delivery", {}) | document for document in documents]
    screen.table(rows, (*_COLUMNS, *_OF_SINK) if delivers else _COLUMNS)
    screen.answer({"pipeline": pipeline.name, "backfill_id": arguments.backfill, "batches": documents})


def _documents(checkpoint: Checkpoint, arguments: Namespace) -> Iterator[dict[str, Any]]:
    latest = checkpoint.latest_batch()
    if latest is None:
        return
    for number in range(latest, max(-1, latest - arguments.limit), -1):
        commit = checkpoint.committed(number)
        if commit is not None:
            report = BatchReport.load(checkpoint, number, backfill_id=arguments.backfill)
            yield _committed(report, commit.outcome)
        else:
            opened = checkpoint.offset(number)
            steps = None if opened is None else len(opened.spec.steps)
            opened_at = None if opened is None else opened.opened_at
            yield {"batch": number, "state": "open", "at": opened_at, "route": None, "steps": steps}


def _committed(report: BatchReport, outcome: BatchOutcome) -> dict[str, Any]:
    return {
        "batch": report.batch.batch_number,
        "state": outcome.state,
        "at": report.committed_at,
        "route": report.route.value,
        "steps": report.batch.steps,
        **report.batch.counts,
        "bytes_read": report.bytes_read,
        "seconds": report.seconds,
        **({} if report.delivery is None else {"delivery": asdict(report.delivery)}),
    }


_PHASES: Final = (
    "phase", "seconds", "attempts", "tasks_run", "tasks_found", "tasks_failed", "tasks_adopted", "map_tasks_run_again",
)  # fmt: skip
_CHECKS: Final = ("name", "outcome", "rows", "error")


def show(arguments: Namespace, screen: Screen) -> None:
    """Shows the report of a batch that ended, or what is known of an open one; needs no catalog."""
    pipeline = load_named_pipeline(arguments)
    with screen.under_way("looking"):
        places = places_here(pipeline, backfill_id=arguments.backfill)
        checkpoint = places.checkpoint
        latest = checkpoint.latest_batch()
        number: int | None = latest if arguments.batch is None else arguments.batch
        if number is None:
            raise UsageError(f"{checkpoint.url} has no batch yet; run the pipeline first", url=checkpoint.url)
        report = None
        if checkpoint.committed(number) is not None:
            report = BatchReport.load(checkpoint, number, backfill_id=arguments.backfill)
        opened = checkpoint.offset(number)
        phases = () if opened is None or report is not None else load_phases(places.reference(opened).folder)
    if report is not None:
        document = json.loads(dump_document(report))
    elif opened is not None:
        document = _open_document(opened, phases)
    else:
        known = "it has none yet" if latest is None else f"it has batches 0 to {latest}"
        raise UsageError(f"{checkpoint.url} has no batch {number}: {known}; see icefloe batches", batch_number=number)
    screen.facts(document)
    screen.table(document["phases"], _PHASES)
    checks = [check for phase in document["phases"] for check in phase.get("checks", ())]
    screen.table(checks, _CHECKS)
    for check in checks:
        if check["samples"]:
            screen.say(f"the first rows of {check['name']}:")
            screen.table(check["samples"], tuple(check["samples"][0]))
    screen.answer(document)


def _open_document(opened: OffsetRecord, phases: Iterable[PhaseRecord]) -> dict[str, Any]:
    return {
        "batch_number": opened.batch_number,
        "is_open": True,
        "opened_at": opened.opened_at,
        "opened_by": str(opened.opened_by),
        "after_snapshot_id": id_json(opened.spec.after_snapshot_id),
        "up_to_snapshot_id": id_json(opened.spec.up_to_snapshot_id),
        "steps": len(opened.spec.steps),
        "skipped_replace_snapshots": opened.spec.skipped_replace_snapshots,
        "phases": [json.loads(dump_document(each)) for each in phases],
    }
