"""The document of one batch, or of one run: its route with figures, its tasks and their skew."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote, urlsplit

from airflow.configuration import conf

from icefloe.flow import Route, batch_tasks
from icefloe.orchestration.page.document_cache import Found
from icefloe.orchestration.page.views.batch_entry import committed_entry, open_entry, runs_by_batch, task_rows
from icefloe.orchestration.page.views.dag_state import DagState, RunState
from icefloe.orchestration.page.views.health import State, health_of
from icefloe.orchestration.page.views.status_document import StatusDocument

__all__ = ["batch_document", "run_document"]


def history_url() -> str | None:
    """URL of the history server in Airflow's configuration, without a final slash; None if there is none."""
    url = str(conf.get("icefloe", "spark_history_url", fallback="") or "").rstrip("/")
    return url if _is_web(url) else None


def spark_links(
    phases: Iterable[Mapping[str, Any]], run: RunState | None, *, history: str | None
) -> dict[str, dict[str, Any]]:
    """Id and link of the Spark application of each phase, by the phase's name.

    Args:
        phases: phase records from a report or from the folder of an open batch.
        run: the run that may be at work on them.
        history: as `history_url` gives it.
    """
    links = {}
    for phase in phases:
        application, page = phase.get("spark_application_id"), phase.get("spark_ui")
        if not application:
            continue
        task = None if run is None else run.tasks.get(phase["phase"])
        is_live = task is not None and task.state == "running" and bool(page) and _is_web(str(page))
        past = None if history is None else f"{history}/history/{quote(str(application), safe='')}/"
        links[str(phase["phase"])] = {
            "application_id": str(application),
            "url": page if is_live else past,
            "is_live": is_live,
        }
    return links


def _is_web(url: str) -> bool:
    return urlsplit(url).scheme in ("http", "https")


_DETAILS: Final = (
    "map_task_bytes", "map_task_seconds", "range_bytes", "range_seconds", "phases", "map_outputs_redone",
    "fetched_bytes", "fetched_blocks",
)  # fmt: skip


def batch_document(
    dag: DagState,
    number: int,
    status: StatusDocument | None,
    report: Found,
    phases: Sequence[Mapping[str, Any]],
    *,
    now: datetime,
) -> dict[str, Any]:
    """The document of a batch.

    Args:
        dag: with the runs that may have worked on it.
        number: of the batch.
        status: the pipeline's ``status.json``.
        report: of the batch; missing while it is open.
        phases: their records so far, while it is open.
        now: of this machine.
    """
    runs = runs_by_batch(dag.runs).get(number, [])
    return _document(dag, number, runs, status, report, phases, now)


def run_document(
    dag: DagState,
    run: RunState,
    status: StatusDocument | None,
    report: Found,
    phases: Sequence[Mapping[str, Any]],
    *,
    now: datetime,
) -> dict[str, Any]:
    """The document of a run: the batch that it worked on, if it got that far."""
    return _document(dag, run.batch_number, [run], status, report, phases, now)


def _document(
    dag: DagState,
    number: int | None,
    runs: Sequence[RunState],
    status: StatusDocument | None,
    report: Found,
    phases: Sequence[Mapping[str, Any]],
    now: datetime,
) -> dict[str, Any]:
    run = runs[0] if runs else None
    details = _details(report.value) or ({"phases": list(phases)} if phases else {})
    return {
        "now": now.isoformat(),
        "dag_id": dag.dag_id,
        "pipeline": dag.dag_id if dag.facts.pipeline is None else dag.facts.pipeline.name,
        "table": None if dag.facts.pipeline is None else dag.facts.pipeline.table,
        "is_backfill": dag.is_backfill,
        "backfill_id": None if run is None else run.result("plan").get("backfill_id"),
        "batch": None if number is None else _entry(number, runs, status, report),
        "report_sentence": report.sentence if report.value is None else None,
        "run": None if run is None else _run(run),
        "routes": {
            route.value: [task.value for task in batch_tasks(route, delivers=_delivers(dag))] for route in Route
        },
        "earlier_runs": [_run(each) for each in runs[1:]],
        "trouble": _trouble(dag, run, status, now),
        "summary_checks": [] if report.value is None else list(report.value.get("summary_checks") or ()),
        "details": details,
        "spark": spark_links(details.get("phases", ()), run, history=history_url()),
    }


def _delivers(dag: DagState) -> bool:
    """True if batches of the DAG go on from the staged files to a sink; those of a backfill stay there."""
    return dag.facts.pipeline is not None and dag.facts.pipeline.delivers and not dag.is_backfill


def _entry(
    number: int, runs: Sequence[RunState], status: StatusDocument | None, report: Found
) -> dict[str, Any] | None:
    if report.value is not None:
        return committed_entry(report.value, runs)
    is_open = status is not None and status.get("open_batch") == number
    return open_entry(number, status.get("open_since") if status is not None and is_open else None, runs)


def _run(run: RunState) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "state": run.state,
        "started_at": None if run.started_at is None else run.started_at.isoformat(),
        "ended_at": None if run.ended_at is None else run.ended_at.isoformat(),
        "conf": dict(run.conf),
        "tasks": task_rows(run),
        "was_delivered_before": bool(run.result("plan").get("was_delivered_before")),
    }


def _trouble(
    dag: DagState, run: RunState | None, status: StatusDocument | None, now: datetime
) -> dict[str, Any] | None:
    """The failure of this run; None if there is none. The pipeline's status is only about its latest run."""
    if run is None:
        return None
    of_run = DagState(dag_id=dag.dag_id, facts=dag.facts, is_broken=dag.is_broken, runs=(run,))
    is_latest = dag.last_run is not None and dag.last_run.run_id == run.run_id and not dag.is_backfill
    health = health_of(of_run, status if is_latest else None, now=now)
    if health.state not in (State.FAILED, State.RETRYING, State.BROKEN):
        return None
    return {
        "state": health.state.value,
        "sentence": health.sentence,
        "task_id": health.task_id,
        "try_number": health.try_number,
    }


def _details(report: Mapping[str, Any] | None) -> dict[str, Any]:
    """Figures of single tasks from a report; none if the batch had no tasks."""
    return {} if report is None else {name: report[name] for name in _DETAILS if report.get(name) is not None}
