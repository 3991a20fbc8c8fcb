"""Metrics ``icefloe.*`` through Airflow's Stats, to StatsD or OpenTelemetry.

docs/operations.md has their table. Each is sent twice, as Airflow does: as ``icefloe.<metric>`` with the tags
``pipeline`` and ``table``, and as ``icefloe.<pipeline>.<metric>`` for StatsD, which knows no tags.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NamedTuple

from airflow.sdk.observability import stats

from icefloe.batch.report import BatchReport
from icefloe.batch.status import PipelineStatus
from icefloe.errors import one_line
from icefloe.storage.requests import RequestTotals

logger = logging.getLogger(__name__)

_PREFIX: Final = "icefloe"
_REQUEST_KINDS: Final = (
    "get", "get_ranges", "put", "create", "head", "delete", "list", "failed", "again", "found_there",
)  # fmt: skip
_OF_PHASES: Final = (
    "tasks_run", "tasks_found", "tasks_failed", "tasks_adopted", "map_tasks_run_again", "attempts_lost",
)  # fmt: skip
_DELIVERED: Final = ("documents", "repeated", "retries", "refused", "dead_letters", "superseded")


class Metric(NamedTuple):
    """One number, sent by the function of Airflow's Stats that ``kind`` names; a ``timing`` is in seconds."""

    kind: Literal["incr", "gauge", "timing"]
    name: str
    value: float


def send_status(status: PipelineStatus | None) -> None:
    """Sends the gauges of a pipeline, unless its status could not be written."""
    if status is not None:
        _send(status_metrics(status, now=datetime.now(UTC)), pipeline=status.pipeline, table=status.table)


def send_report(report: BatchReport) -> None:
    """Sends counters and times of a new commit; a backfill counts under its DAG's name."""
    name = report.batch.pipeline if report.backfill_id is None else f"{report.batch.pipeline}__backfill"
    _send(report_metrics(report), pipeline=name, table=report.batch.table)


def send_poll(pipeline: str, table: str, *, outcome: Literal["due", "empty", "failed"]) -> None:
    """Counts a look for work."""
    _send([Metric("incr", f"polls.{outcome}", 1)], pipeline=pipeline, table=table)


def send_batch(dag_id: str, table: str, *, is_resumed: bool, map_tasks: int) -> None:
    """Counts a batch of plan, and the map tasks of a new one."""
    names = {"batch.resumed": 1} if is_resumed else {"batch.opened": 1, "map_tasks.planned": map_tasks}
    _send(_known("incr", names), pipeline=dag_id, table=table)


def send_failure(dag_id: str, table: str, phase: str, *, is_final: bool, is_lost: bool = False) -> None:
    """Counts a failed or lost try."""
    kind = "final" if is_final else "to_retry"
    names = (f"task.failed.{kind}", f"task.failed.{phase}", *(["task.lost"] if is_lost else []))
    _send(_known("incr", dict.fromkeys(names, 1)), pipeline=dag_id, table=table)


def _known(kind: Literal["incr", "gauge", "timing"], figures: Mapping[str, float | None]) -> Iterator[Metric]:
    return (Metric(kind, name, value) for name, value in figures.items() if value is not None)


def status_metrics(status: PipelineStatus, *, now: datetime) -> Iterator[Metric]:
    """The known figures of a status."""
    waiting = 0.0 if status.lag_snapshots == 0 else _seconds(status.waiting_since, now)
    expiry = None if status.next_expiry is None else datetime.fromisoformat(status.next_expiry.at) - now
    gauges = {
        "lag.snapshots": status.lag_snapshots,
        "lag.rows": status.lag_rows,
        "lag.seconds": waiting,
        "open_batch.seconds": 0.0 if status.open_since is None else _seconds(status.open_since, now),
        "trouble": 0 if status.trouble is None else 1,
        "pinned.snapshots": None if status.pins is None else status.pins.snapshots,
        "expiry.seconds": None if expiry is None else expiry.total_seconds(),
    }
    return _known("gauge", gauges)


def report_metrics(report: BatchReport) -> Iterator[Metric]:
    """The known figures of a batch."""
    counters = {
        f"batch.committed.{report.route.value}": 1,
        "steps": report.batch.steps,
        "rows.read": report.rows_read,
        "rows.removed": report.removed_rows_read,
        "rows.added": report.added_rows_read,
        "rows.carried_over": report.carried_over_rows,
        "rows.shuffled": report.shuffled_rows,
        **{f"changes.{change}": count for change, count in report.batch.counts.items()},
        "bytes.read": report.bytes_read,
        "bytes.decoded": report.decoded_bytes,
        "bytes.shuffled": report.shuffled_bytes,
        "bytes.fetched": report.fetched_bytes,
        "bytes.written": report.written_bytes,
        "blocks.fetched": report.fetched_blocks,
        "map_outputs.committed": report.map_tasks,
        "map_outputs.redone": report.map_outputs_redone,
        "map_outputs.void": sum(phase.map_outputs_void for phase in report.phases),
        "races.lost": sum(phase.tasks_adopted + phase.requests.races_lost for phase in report.phases),
        "map_outputs.missing": sum(phase.map_outputs_missing for phase in report.phases),
        "ranges.delivered": report.ranges,
        "warnings": len(report.warnings),
    }
    yield from _known("incr", counters)
    for phase in report.phases:
        figures = {name: getattr(phase, name) for name in _OF_PHASES}
        figures |= {"retries": phase.attempts - 1, "requests": phase.requests.sent}
        yield from _known("incr", {f"phase.{phase.phase}.{name}": each or None for name, each in figures.items()})
        yield Metric("timing", f"phase.{phase.phase}.time", phase.seconds)
    yield from _node_metrics(report)
    yield from _request_metrics(report)
    if report.delivery is not None:
        yield from _known("incr", {f"delivery.{name}": getattr(report.delivery, name) for name in _DELIVERED})
        yield Metric("incr", "bytes.delivered", report.delivery.bytes)
        yield from _known("timing", {"delivery.lag": report.delivery.lag_seconds})
    weighed = (report.removed_rows_read or 0) + (report.added_rows_read or 0)
    if weighed:
        yield Metric("gauge", "rows.carried_over_ratio", report.carried_over_rows / weighed)
    yield from _known("timing", {"batch.time": report.seconds})


def _node_metrics(report: BatchReport) -> Iterator[Metric]:
    """Lost map outputs. Dots and colons of an address would part a metric's name."""
    lost = Counter[str]()
    for phase in report.phases:
        for node in phase.nodes_lost:
            lost[node.address] += node.map_outputs
    for address, outputs in lost.items():
        yield Metric("incr", f"node.{re.sub('[^0-9A-Za-z-]', '_', address)}.map_outputs_lost", outputs)


def _request_metrics(report: BatchReport) -> Iterator[Metric]:
    known = {phase.phase: phase.requests for phase in report.phases}
    if not known:
        return
    totals = sum(known.values(), RequestTotals())
    yield from _known("incr", {f"requests.{kind}": getattr(totals, kind) for kind in _REQUEST_KINDS})
    yield Metric("timing", "requests.time", totals.seconds)
    if "shuffle_read" in known:
        yield Metric("incr", "shuffle.requests", known["shuffle_read"].get_ranges)


def _send(metrics: Iterable[Metric], *, pipeline: str, table: str) -> None:
    """Best effort: no backend of metrics may stop a batch."""
    tags = {"pipeline": pipeline, "table": table}
    try:
        for metric in metrics:
            value = timedelta(seconds=metric.value) if metric.kind == "timing" else metric.value
            for name in (f"{_PREFIX}.{metric.name}", f"{_PREFIX}.{pipeline}.{metric.name}"):
                getattr(stats, metric.kind)(name, value, tags=tags)
    except Exception as error:  # noqa: BLE001 - whatever the backend raises
        logger.warning("metrics of %s could not be sent: %s", pipeline, one_line(error))


def _seconds(since: str | None, now: datetime) -> float | None:
    return None if since is None else max(0.0, (now - datetime.fromisoformat(since)).total_seconds())
