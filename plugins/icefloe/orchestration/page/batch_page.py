"""The document of one batch or one run."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote, urlsplit

from airflow.configuration import conf

from icefloe.flow import WORKING_TASKS, FlowTask, Route
from icefloe.orchestration.page.checkpoint_reader import Found
from icefloe.orchestration.page.dag_reader import DagState, RunState, StatusDocument, TaskState
from icefloe.orchestration.page.health import State, health_of


def history_url() -> str | None:
    """URL of Airflow's history server, without a final slash, if any."""
    url = str(conf.get("icefloe", "spark_history_url", fallback="") or "").rstrip("/")
    return url if _is_web(url) else None


def spark_links(
    phases: Iterable[Mapping[str, Any]], run: RunState | None, *, history: str | None
) -> dict[str, dict[str, Any]]:
    """Id and link of each phase's Spark application; ``run`` may be at work on them."""
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
    "phases", "summary_checks", "map_task_bytes", "map_task_seconds", "range_bytes", "range_seconds",
)  # fmt: skip
"""Long keys of a report, which only the page of its batch shows."""


def batch_document(
    dag: DagState,
    number: int | None,
    runs: Sequence[RunState],
    status: StatusDocument | None,
    report: Found,
    phases: Sequence[Mapping[str, Any]],
    *,
    now: datetime,
) -> dict[str, Any]:
    """The document of a batch, or of one run's batch, if it got that far; an open batch has no report."""
    run, pipeline = runs[0] if runs else None, dag.facts.pipeline
    trouble, ended_since = _trouble(dag, run, status, now), None
    # Of a run that failed after its own commit, the trouble stays: its cleanup is not done.
    if run is not None and trouble is not None and report.value is not None and not run.result("commit"):
        state = report.value["state"]
        ended = "delivered" if state == "committed" else state
        trouble, ended_since = None, f"This run failed; batch {number} was {ended} since."
    then = () if pipeline is None else pipeline.last_tasks(is_backfill=dag.is_backfill)
    details: dict[str, Any] = (
        {name: report.value[name] for name in _DETAILS if report.value.get(name) is not None} if report.value else {}
    )
    if not details and phases:
        details = {"phases": list(phases)}
    return {
        "now": now.isoformat(),
        "dag_id": dag.dag_id,
        "group": dag.group,
        "pipeline": dag.dag_id if pipeline is None else pipeline.name,
        "table": None if pipeline is None else pipeline.table,
        "is_backfill": dag.is_backfill,
        "batch": None if number is None else _entry(number, runs, status, report),
        "report_sentence": report.sentence if report.value is None else None,
        "run": None if run is None else _run(run),
        "routes": {route.value: [task.value for task in route.tasks(then)] for route in Route},
        "earlier_runs": [_run(each) for each in runs[1:]],
        "trouble": trouble,
        "ended_since": ended_since,
        "details": details,
        "spark": spark_links(details.get("phases", ()), run, history=history_url()),
    }


def _entry(
    number: int, runs: Sequence[RunState], status: StatusDocument | None, report: Found
) -> dict[str, Any] | None:
    if report.value is not None:
        return ended_entry(report.value, runs)
    is_open = status is not None and status.get("open_batch") == number
    return open_entry(number, status.get("open_since") if status is not None and is_open else None, runs)


def _run(run: RunState) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "state": run.state,
        "started_at": None if run.started_at is None else run.started_at.isoformat(),
        "conf": dict(run.conf),
        "tasks": task_rows(run),
        "was_delivered_before": bool(run.result("plan").get("was_delivered_before")),
    }


def _trouble(
    dag: DagState, run: RunState | None, status: StatusDocument | None, now: datetime
) -> dict[str, Any] | None:
    """The failure of this run, if any. The status is only about the latest run."""
    if run is None:
        return None
    of_run = DagState(dag_id=dag.dag_id, group=dag.group, facts=dag.facts, is_broken=dag.is_broken, runs=(run,))
    is_latest = dag.last_run is not None and dag.last_run.run_id == run.run_id and not dag.is_backfill
    # What the pipeline has done since is no news of this run.
    health = health_of(of_run, {"trouble": status.get("trouble")} if status and is_latest else None, now=now)
    if health.state not in (State.FAILED, State.RETRYING, State.BROKEN):
        return None
    return {name: getattr(health, name) for name in ("state", "sentence", "task_id", "try_number")}


def ended_entry(report: Mapping[str, Any], runs: Sequence[RunState]) -> dict[str, Any]:
    """The entry of a batch that ended: its report and state without long keys; no runs if Airflow forgot them."""
    return {
        **{name: value for name, value in report.items() if name not in _DETAILS},
        "audit": _audit(report) if report["state"] == "committed" else None,
        "phases": phase_seconds(runs)
        or [{"name": each["phase"], "seconds": round(each["seconds"], 3)} for each in report.get("phases") or ()],
        "run_id": runs[0].run_id if runs else None,
    }


def open_entry(number: int, since: str | None, runs: Sequence[RunState]) -> dict[str, Any]:
    """The entry of an open batch, as its plan has it."""
    plan = runs[0].result("plan") if runs else {}
    return {
        "batch": {
            "batch_number": number,
            **{name: plan.get(name) for name in ("steps", "after_snapshot_id", "up_to_snapshot_id")},
        },
        **{name: plan.get(name) for name in ("route", "map_tasks", "num_partitions")},
        "state": "open",
        "opened_at": since,
        "warnings": [],
        "phases": phase_seconds(runs),
        "run_id": runs[0].run_id if runs else None,
    }


def runs_by_batch(runs: Iterable[RunState]) -> dict[int, list[RunState]]:
    """The runs of each batch, newest first: the next run resumes a failed batch."""
    by_batch: dict[int, list[RunState]] = {}
    for run in runs:
        if run.batch_number is not None:
            by_batch.setdefault(run.batch_number, []).append(run)
    return by_batch


def phase_seconds(runs: Sequence[RunState]) -> list[dict[str, Any]]:
    """Wall-clock seconds of each task, summed over all runs of a batch; the last try in each run counts."""
    totals: dict[str, float] = {}
    for run in runs:
        for name in WORKING_TASKS:
            seconds = _seconds(run.tasks.get(name))
            if seconds is not None:
                totals[name] = totals.get(name, 0.0) + seconds
    return [{"name": name.value, "seconds": round(totals[name], 3)} for name in WORKING_TASKS if name in totals]


def task_rows(run: RunState) -> list[dict[str, Any]]:
    """The tasks of a run in the order of the flow; unknown ones first."""
    order: dict[str, int] = {name: place for place, name in enumerate(FlowTask)}
    tasks = sorted(run.tasks.values(), key=lambda task: (order.get(task.task_id, -1), task.task_id))
    return [
        {
            "task_id": task.task_id,
            "state": task.state,
            "try_number": task.try_number,
            "tries": task.max_tries + 1,
            "started_at": None if task.started_at is None else task.started_at.isoformat(),
            "seconds": _seconds(task),
            "sentence": None if task.trouble is None else task.trouble.get("sentence"),
        }
        for task in tasks
    ]


def _seconds(task: TaskState | None) -> float | None:
    if task is None or task.state in ("skipped", "upstream_failed") or task.started_at is None or task.ended_at is None:
        return None
    return max(0.0, (task.ended_at - task.started_at).total_seconds())


def _audit(report: Mapping[str, Any]) -> dict[str, Any]:
    checks = report.get("summary_checks") or ()
    can_tell = [check for check in checks if check.get("expected") is not None]
    return {
        "summaries_equal": sum(check.get("expected") == check.get("found") for check in can_tell),
        "summaries_differ": sum(check.get("expected") != check.get("found") for check in can_tell),
        "summaries_silent": len(checks) - len(can_tell),
    }
