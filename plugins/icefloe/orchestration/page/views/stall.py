"""Reasons why a pipeline does not go on although there is work: the part of Airflow that should have acted."""

from datetime import datetime
from typing import Final

from icefloe.orchestration.page.views.dag_state import DagState, TaskState
from icefloe.orchestration.page.views.status_document import StatusDocument

_PATIENCE_SECONDS: Final = 300.0
_POLLS: Final = 3


def trigger_stall(dag: DagState, status: StatusDocument, now: datetime) -> str | None:
    """Sentence about a sensor that waits although the table moved on long ago; None if there is none."""
    waited = _seconds_since(status.get("waiting_since"), now)
    patience = _PATIENCE_SECONDS
    if dag.facts.pipeline is not None:
        patience += _POLLS * dag.facts.pipeline.poll_interval
    if not status.get("lag_snapshots") or waited is None or waited < patience:
        return None
    return "wait_for_snapshot still waits although the table moved on: check Airflow's triggerer and its log."


def schedule_stall(dag: DagState, status: StatusDocument, now: datetime) -> str | None:
    """Sentence about a run that was due and was not made; None if there is none."""
    due, waited = dag.next_run_at, _seconds_since(status.get("waiting_since"), now)
    if not status.get("lag_snapshots") or due is None or (waited is not None and waited < _PATIENCE_SECONDS):
        return None
    if (now - due).total_seconds() < _PATIENCE_SECONDS:
        return None
    return "A run is due and has not begun: check that Airflow's scheduler and DAG processor run."


def queue_stall(task: TaskState | None, now: datetime) -> str | None:
    """Sentence about a task that no worker takes; None if there is none."""
    if task is None or task.waits_since is None or (now - task.waits_since).total_seconds() < _PATIENCE_SECONDS:
        return None
    return (
        f"{task.task_id} is {task.state} and no worker takes it: check the slots of its pool, and that the scheduler "
        "and its workers run."
    )


def _seconds_since(iso: str | None, now: datetime) -> float | None:
    return None if iso is None else (now - datetime.fromisoformat(iso)).total_seconds()
