"""The documents of all pipelines and of one."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

from icefloe.orchestration.page.batch_page import ended_entry, open_entry, runs_by_batch
from icefloe.orchestration.page.checkpoint_reader import Found
from icefloe.orchestration.page.dag_reader import DagState, RunState, StatusDocument
from icefloe.orchestration.page.health import Health, State, health_of
from icefloe.pipeline.model import Pipeline

PAGE_SIZE: Final = 25


def newest_batch(dag: DagState, status: StatusDocument | None) -> int | None:
    """The highest number of a committed batch in the status or Airflow's runs."""
    last = status.get("last_batch") if status else None
    if last is not None:
        return int(last)
    committed = [run.result("commit").get("batch_number") for run in dag.runs]
    return max((number for number in committed if isinstance(number, int)), default=None)


def shown_batches(newest: int | None, before: int | None) -> list[int]:
    """The numbers of one page, newest first.

    >>> shown_batches(2, None)
    [2, 1, 0]
    >>> shown_batches(100, 30)[:2], len(shown_batches(100, 30))
    ([29, 28], 25)
    """
    last = -1 if newest is None else newest if before is None else min(newest, before - 1)
    return list(range(last, max(-1, last - PAGE_SIZE), -1))


def pipeline_document(
    dag: DagState,
    status: Found,  # as of now if its catalog answers
    look: Found | None,
    reports: Mapping[int, Found],  # of the shown batches, newest first
    backfills: Iterable[DagState],  # its backfill DAG, if the user may see it
    *,
    now: datetime,
) -> dict[str, Any]:
    """The document of a pipeline."""
    runs = runs_by_batch(dag.runs)
    row = pipeline_row(dag, status, look, now=now)
    opened = row["status"].get("open_batch")
    entries = [_entry(number, found, runs.get(number, [])) for number, found in reports.items()]
    if opened is not None and opened not in reports:
        entries.insert(0, open_entry(opened, row["status"]["open_since"], runs.get(opened, [])))
    oldest = min(reports, default=0)
    return {
        "now": now.isoformat(),
        "is_looking": row["is_looking"],
        "pipeline": row,
        "batches": entries,
        "next_before": oldest if oldest > 0 else None,
        "backfills": [_backfill(each.dag_id, run) for each in backfills for run in each.runs],
    }


def _entry(number: int, found: Found, runs: list[RunState]) -> dict[str, Any]:
    if found.value is None:
        run_id = runs[0].run_id if runs else None
        return {"batch": {"batch_number": number}, "state": "unknown", "sentence": found.sentence, "run_id": run_id}
    return ended_entry(found.value, runs)


def _backfill(dag_id: str, run: RunState) -> dict[str, Any]:
    failed = next((task for task in run.tasks.values() if task.state == "failed"), None)
    trouble = None if failed is None or failed.trouble is None else failed.trouble.get("sentence")
    return {
        "dag_id": dag_id,
        "run_id": run.run_id,
        "state": run.state,
        "range": {key: value for key, value in run.conf.items() if value not in (None, "")},
        "started_at": None if run.started_at is None else run.started_at.isoformat(),
        "backfill_id": run.result("plan").get("backfill_id"),
        "was_delivered_before": bool(run.result("plan").get("was_delivered_before")),
        "counts": run.result("commit").get("counts"),
        "sentence": trouble,
    }


_ORDER: Final = list(State)


def overview_document(
    dags: Iterable[DagState], statuses: Mapping[str, Found], looks: Mapping[str, Found], *, now: datetime
) -> dict[str, Any]:
    """The document of the overview; statuses are by key, as of now if their catalogs answer."""
    # `now` is of this machine; the browser's clock may differ.
    rows = [
        pipeline_row(dag, statuses.get(dag.key, Found()), looks.get(dag.key), now=now)
        for dag in dags
        if not dag.is_backfill
    ]
    rows.sort(key=lambda row: (not row["needs_somebody"], _ORDER.index(row["state"]), row["dag_id"]))
    counts = Counter(str(row["state"]) for row in rows)
    return {
        "now": now.isoformat(),
        "is_looking": any(row["is_looking"] for row in rows),
        "pipelines": rows,
        "counts": {state: counts[state] for state in _ORDER},
    }


def pipeline_row(dag: DagState, found: Found, look: Found | None, *, now: datetime) -> dict[str, Any]:
    """One pipeline; see `overview_document`."""
    status: StatusDocument = found.value or {}
    pipeline = dag.facts.pipeline
    health = health_of(dag, found.value, now=now)
    return {
        "dag_id": dag.dag_id,
        "group": dag.group,
        "pipeline": dag.dag_id if pipeline is None else pipeline.name,
        "file": dag.facts.path,
        **{key: getattr(pipeline, key, None) for key in ("table", "branch", "changes", "initial_load")},
        "sink": None if pipeline is None else _sink(pipeline, status),
        "schedule": dag.schedule,
        "is_paused": dag.is_paused,
        **asdict(health),
        "needs_somebody": health.needs_somebody,
        "since": None if health.since is None else health.since.isoformat(),
        "next_run_at": None if dag.next_run_at is None or dag.is_paused else dag.next_run_at.isoformat(),
        "checkpoint_sentence": found.sentence,
        "table_sentence": None if look is None else look.sentence,
        "is_looking": look == Found(),
        "status": status,
        "ways_out": _ways_out(dag, health, status),
    }


def _sink(pipeline: Pipeline, status: StatusDocument) -> dict[str, Any]:
    delivery, sink = status.get("last_delivery"), pipeline.sink.named(pipeline=pipeline.name, table=pipeline.table)
    dead_letters = [each for each in status.get("recent") or [] if each.get("dead_letters")]
    return {
        "type": sink.type,
        "mode": sink.options.get("mode"),
        "path": sink.options.get("table", sink.path) if delivery is None else delivery["url"],
        "visible_at": None if delivery is None else delivery["visible_at"],
        "lag_seconds": None if delivery is None else delivery["lag_seconds"],
        "dead_letters": sum(each["dead_letters"] for each in dead_letters),
        "batches_with_dead_letters": [each["batch"] for each in dead_letters],
    }


def _ways_out(dag: DagState, health: Health, status: StatusDocument) -> list[dict[str, str]]:
    if health.state is not State.FAILED:
        return []
    name = dag.dag_id if dag.facts.pipeline is None else dag.facts.pipeline.name
    if dag.is_backfill:
        backfill_id = None if dag.last_run is None else dag.last_run.result("plan").get("backfill_id")
        command = f"icefloe abandon {name} --backfill {backfill_id}"
        return [] if backfill_id is None else [{"text": "If it cannot be repaired, give it up:", "command": command}]
    number = status.get("open_batch")
    if number is not None:
        return [{"text": f"If batch {number} cannot be repaired, give it up:", "command": f"icefloe abandon {name}"}]
    if status.get("lag_snapshots") is None and status.get("cursor_snapshot_id") is not None:
        return [{"text": "If the history is gone, begin from scratch:", "command": f"icefloe reset {name}"}]
    return []
