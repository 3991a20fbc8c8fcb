"""One batch as the page lists it, from its report and the runs that worked on it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from icefloe.flow import WORKING_TASKS, FlowTask
from icefloe.orchestration.page.views.dag_state import RunState, TaskState
from icefloe.units import id_json

_FIGURES: Final = (
    "committed_at", "route", "changes", "steps", "skipped_replace_snapshots", "rows_read", "carried_over_rows",
    "counts", "bytes_read", "decoded_bytes", "shuffled_bytes", "shuffled_rows", "written_bytes", "map_tasks",
    "num_partitions", "ranges", "map_seconds", "reduce_seconds", "seconds",
    "delivery",
)  # fmt: skip
"""Keys that are taken from a report."""


def committed_entry(report: Mapping[str, Any], runs: Sequence[RunState]) -> dict[str, Any]:
    """The entry of a committed batch.

    Args:
        report: as it is in the checkpoint.
        runs: Airflow's runs that worked on it, newest first; none if Airflow forgot them.
    """
    return {
        "batch": report["batch_number"],
        "state": "committed",
        **{name: report.get(name) for name in _FIGURES},
        "after_snapshot_id": id_json(report.get("after_snapshot_id")),
        "up_to_snapshot_id": id_json(report.get("up_to_snapshot_id")),
        "audit": _audit(report),
        "warnings": list(report.get("warnings") or ()),
        "phases": phase_seconds(runs) or _reported_phases(report),
        "run_id": runs[0].run_id if runs else None,
    }


def open_entry(number: int, since: str | None, runs: Sequence[RunState]) -> dict[str, Any]:
    """The entry of a batch under way, as far as its plan says."""
    plan = runs[0].result("plan") if runs else {}
    return {
        "batch": number,
        "state": "open",
        "opened_at": since,
        "route": plan.get("route"),
        "steps": plan.get("steps"),
        "map_tasks": plan.get("map_tasks"),
        "num_partitions": plan.get("num_partitions"),
        "after_snapshot_id": id_json(plan.get("after_snapshot_id")),
        "up_to_snapshot_id": id_json(plan.get("up_to_snapshot_id")),
        "warnings": [],
        "phases": phase_seconds(runs),
        "run_id": runs[0].run_id if runs else None,
    }


def runs_by_batch(runs: Iterable[RunState]) -> dict[int, list[RunState]]:
    """The runs that worked on each batch, newest first: a batch that failed is resumed by the next run."""
    by_batch: dict[int, list[RunState]] = {}
    for run in runs:
        if run.batch_number is not None:
            by_batch.setdefault(run.batch_number, []).append(run)
    return by_batch


def phase_seconds(runs: Sequence[RunState]) -> list[dict[str, Any]]:
    """Seconds that each task took on the clock, summed over all runs of a batch; the last try in each run counts."""
    totals: dict[str, float] = {}
    for run in runs:
        for name in WORKING_TASKS:
            seconds = _seconds(run.tasks.get(name))
            if seconds is not None:
                totals[name] = totals.get(name, 0.0) + seconds
    return [{"name": name.value, "seconds": round(totals[name], 3)} for name in WORKING_TASKS if name in totals]


def task_rows(run: RunState) -> list[dict[str, Any]]:
    """The tasks of a run in the order of the flow; tasks that have no place in it come first."""
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
    if task is None or task.state == "skipped" or task.started_at is None or task.ended_at is None:
        return None
    return max(0.0, (task.ended_at - task.started_at).total_seconds())


def _reported_phases(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Seconds of each phase from the report, for a batch whose runs Airflow forgot."""
    phases = report.get("phases") or ()
    return [{"name": phase["phase"], "seconds": round(phase["seconds"], 3)} for phase in phases]


def _audit(report: Mapping[str, Any]) -> dict[str, Any]:
    """The checks of a committed batch: its hash sum, which was equal on both sides, and the snapshot summaries."""
    checks = report.get("summary_checks") or ()
    can_tell = [check for check in checks if check.get("expected") is not None]
    return {
        "hash_sum": report.get("hash_sum"),
        "summaries_equal": sum(check.get("expected") == check.get("found") for check in can_tell),
        "summaries_differ": sum(check.get("expected") != check.get("found") for check in can_tell),
        "summaries_silent": len(checks) - len(can_tell),
    }
