"""``icefloe batches``: the last batches of a pipeline, newest first."""

from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

from icefloe.batch.report import BatchReport
from icefloe.checkpoint.cursor import BatchOutcome
from icefloe.checkpoint.log import Checkpoint
from icefloe.cli.pipeline_session import load_named_pipeline, open_checkpoint
from icefloe.cli.screen import Screen
from icefloe.cli.shown_values import seconds_text
from icefloe.units import format_bytes

_COLUMNS: Final = ("batch", "state", "at", "route", "steps", "inserted", "deleted", "updated", "read", "took")
_OF_SINK: Final = ("documents", "dead letters", "visible after")
_NUMBERS: Final = ("batch", "steps", "inserted", "deleted", "updated", "read", "took")


def batches(arguments: Namespace, screen: Screen) -> int:
    """Shows the last batches from the checkpoint; needs neither catalog nor table."""
    pipeline = load_named_pipeline(arguments)
    with screen.under_way("looking"):
        checkpoint = open_checkpoint(pipeline, backfill_id=arguments.backfill)
        documents = list(_documents(checkpoint, limit=arguments.limit))
    if documents:
        delivers = any("delivery" in document for document in documents)
        columns = (*_COLUMNS, *_OF_SINK) if delivers else _COLUMNS
        rows = ((*_row(document), *(_at_sink(document) if delivers else ())) for document in documents)
        screen.table(columns, rows, numbers=(*_NUMBERS, *_OF_SINK))
    else:
        screen.say(f"{pipeline.name}: no batch yet")
    if arguments.json:
        screen.json({"pipeline": pipeline.name, "backfill_id": arguments.backfill, "batches": documents})
    return 0


def _documents(checkpoint: Checkpoint, *, limit: int) -> Iterator[dict[str, object]]:
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


def _committed(report: BatchReport, outcome: BatchOutcome) -> dict[str, object]:
    return {
        "batch": report.batch_number,
        "state": "committed" if outcome is BatchOutcome.DELIVERED else outcome.value.replace("_", " "),
        "at": report.committed_at,
        "route": report.route.value,
        "steps": report.steps,
        **report.counts,
        "bytes_read": report.bytes_read,
        "seconds": report.seconds,
        **({} if report.delivery is None else {"delivery": asdict(report.delivery)}),
    }


def _row(document: dict[str, Any]) -> Sequence[str]:
    counts = (document.get(change) for change in ("insert", "delete", "update_after"))
    size = document.get("bytes_read")
    return (
        str(document["batch"]),
        document["state"],
        document["at"] or "-",
        document["route"] or "-",
        _number(document["steps"]),
        *map(_number, counts),
        "-" if size is None else format_bytes(size),
        seconds_text(document.get("seconds")),
    )


def _at_sink(document: dict[str, Any]) -> Sequence[str]:
    """The cells of a batch that is delivered to a sink; dashes for another batch."""
    delivery = document.get("delivery")
    if delivery is None:
        return ("-",) * len(_OF_SINK)
    return (f"{delivery['documents']:,}", f"{delivery['dead_letters']:,}", seconds_text(delivery["lag_seconds"]))


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
