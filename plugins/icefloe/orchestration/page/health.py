"""The health of a pipeline."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from icefloe.flow import FlowTask
from icefloe.orchestration.page.dag_reader import DagState, RunState, StatusDocument, TaskState

_PATIENCE_SECONDS: Final = 300.0
_POLLS: Final = 3


def trigger_stall(dag: DagState, status: StatusDocument, now: datetime) -> str | None:
    """Sentence about a sensor that still waits long after a commit, if any."""
    waited = _seconds_since(status.get("waiting_since"), now)
    patience = _PATIENCE_SECONDS
    if dag.facts.pipeline is not None:
        patience += _POLLS * dag.facts.pipeline.poll_interval
    if not status.get("lag_snapshots") or waited is None or waited < patience:
        return None
    return "wait_for_snapshot still waits although the table moved on: check Airflow's triggerer and its log."


def schedule_stall(dag: DagState, status: StatusDocument, now: datetime) -> str | None:
    """Sentence about a due run that was not made, if any."""
    due, waited = dag.next_run_at, _seconds_since(status.get("waiting_since"), now)
    if not status.get("lag_snapshots") or due is None or (waited is not None and waited < _PATIENCE_SECONDS):
        return None
    if (now - due).total_seconds() < _PATIENCE_SECONDS:
        return None
    return "A run is due and has not begun: check that Airflow's scheduler and DAG processor run."


def queue_stall(task: TaskState | None, now: datetime) -> str | None:
    """Sentence about a task that no worker takes, if any."""
    if task is None or task.waits_since is None or (now - task.waits_since).total_seconds() < _PATIENCE_SECONDS:
        return None
    return (
        f"{task.task_id} is {task.state} and no worker takes it: check the slots of its pool, and that the scheduler "
        "and its workers run."
    )


def _seconds_since(iso: str | None, now: datetime) -> float | None:
    return None if iso is None else (now - datetime.fromisoformat(iso)).total_seconds()


_BEGUN: Final = ("queued", "running", "deferred", "restarting")
_AT_WORK: Final = (*_BEGUN, "scheduled", "up_for_reschedule")
_RETRYING: Final = "up_for_retry"


class State(StrEnum):
    """The states of a pipeline; those that need somebody come first."""

    BROKEN = "broken file"
    FAILED = "failed"
    RETRYING = "retrying"
    BEHIND = "behind"
    RUNNING = "running"
    PAUSED = "paused"
    NEW = "new"
    UP_TO_DATE = "up to date"


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """One state, and a sentence if there is something to explain."""

    state: State
    sentence: str | None = None  # the fault and the way out, or the work under way
    run_id: str | None = None
    task_id: str | None = None
    try_number: int | None = None
    since: datetime | None = None
    is_stalled: bool = False  # there is work, but Airflow does not do it

    @property
    def needs_somebody(self) -> bool:
        """True if nothing goes on by itself."""
        return self.is_stalled or self.state in (State.BROKEN, State.FAILED)


def health_of(dag: DagState, status: StatusDocument | None, *, now: datetime) -> Health:
    """The health of a pipeline; ``status`` is None if it could not be read."""
    if dag.is_broken or dag.facts.pipeline is None:
        return Health(state=State.BROKEN, sentence=dag.facts.sentence or "Its pipeline file makes no DAG.")
    status = status or {}
    run = dag.last_run
    if run is None:
        return _idle(dag, status, schedule_stall(dag, status, now))
    failed = _first(run, "failed")
    if failed is not None or run.state == "failed":
        ended = _ended_since(run, failed, status)
        return _failed(dag, run, failed, status) if ended is None else _settled(dag, run, ended, status, now)
    retrying = _first(run, _RETRYING)
    if retrying is not None and not _is_held(dag, run):
        return _told(State.RETRYING, run, retrying, _why_again(retrying, status))
    if run.is_unfinished:
        return _under_way(dag, run, status, now)
    return _idle(dag, status, schedule_stall(dag, status, now))


def _under_way(dag: DagState, run: RunState, status: StatusDocument, now: datetime) -> Health:
    task = _first(run, *_AT_WORK)
    if task is not None and task.task_id == FlowTask.WAIT_FOR_SNAPSHOT and task.state == "deferred":
        return _waiting(dag, run, task, status, trigger_stall(dag, status, now))
    if dag.is_paused and run.state == "queued":
        return Health(state=State.PAUSED, sentence="The DAG is paused: a run is queued and waits.", run_id=run.run_id)
    if _is_held(dag, run):
        retrying = _first(run, _RETRYING)
        why = "" if retrying is None else f" {_why_again(retrying, status)}"
        held = f"The DAG is paused in the middle of a run: switch it on to finish it.{why}"
        return _told(State.BEHIND, run, task or retrying, held)
    stall = queue_stall(task, now)
    if stall is not None:
        return replace(_told(State.RUNNING, run, task, stall), is_stalled=True)
    before = next((each for each in dag.runs if not each.is_unfinished), None)
    trouble = status.get("trouble") or {}
    again = trouble.get("sentence") if before is not None and before.state == "failed" else None
    what = f"{task.task_id} is {task.state}" if task is not None else f"the run is {run.state}"
    sentence = f"The last run failed; {what} again. {again}" if again else None
    return _told(State.RETRYING if again else State.RUNNING, run, task, sentence)


def _is_held(dag: DagState, run: RunState) -> bool:
    """True if a paused DAG holds a run: begun tasks go on, but none begins or is retried."""
    return dag.is_paused and run.is_unfinished and _first(run, *_BEGUN) is None


def _waiting(dag: DagState, run: RunState, sensor: TaskState, status: StatusDocument, stall: str | None) -> Health:
    trouble = status.get("trouble") or {}
    if dag.is_paused or trouble.get("phase") != sensor.task_id:
        return _idle(dag, status, stall)
    sentence = f"{sensor.task_id} looks again until it succeeds. {trouble['sentence']}"
    return replace(_told(State.RETRYING, run, sensor, sentence), is_stalled=stall is not None)


def _idle(dag: DagState, status: StatusDocument, stall: str | None) -> Health:
    behind, is_begun = status.get("lag_snapshots"), status.get("cursor_snapshot_id") is not None
    if dag.is_paused and (behind or (behind is None and is_begun)):
        waits = "" if behind is None else f": {behind:,} {'snapshot waits' if behind == 1 else 'snapshots wait'}"
        sentence = f"The DAG is paused while its table moves on{waits}. Switch it on to deliver the changes."
        return Health(state=State.BEHIND, sentence=sentence)
    if dag.is_paused:
        never = "" if dag.runs else " It has never run: switch it on to begin."
        return Health(state=State.PAUSED, sentence=f"The DAG is paused.{never}")
    if not is_begun and not dag.runs:
        return Health(state=State.NEW, sentence="It has not run yet.")
    if behind is None and is_begun:
        gone = "The last delivered snapshot is no longer in the history of the branch: it expired, or was rolled back."
        return Health(state=State.BEHIND, sentence=gone)
    if behind and stall is not None:
        return Health(state=State.BEHIND, sentence=stall, is_stalled=True)
    return Health(state=State.BEHIND if behind else State.UP_TO_DATE)


def _failed(dag: DagState, run: RunState, task: TaskState | None, status: StatusDocument) -> Health:
    sentence = None if task is None else _sentence(task, status)
    if sentence is None:
        sentence = (
            "The run failed, and none of its tasks did: its dagrun_timeout passed, or somebody marked it as failed. "
            "The next run goes on with the same batch."
        )
        if task is not None:
            sentence = (
                f"{task.task_id} was killed, most often because memory ran out, was marked as failed, or its worker "
                "was lost: it left no error of its own. See its log; clear the task to go on where it stopped."
            )
    latest = [each.state for each in dag.runs[: dag.max_failed_runs]]
    if dag.is_paused and dag.max_failed_runs and latest == ["failed"] * dag.max_failed_runs:
        paused = f"Airflow paused the DAG after {dag.max_failed_runs} failed runs: switch it on again afterwards."
        sentence = f"{sentence.rstrip('.')}. {paused}"
    return _told(State.FAILED, run, task, sentence)


def _ended_since(run: RunState, task: TaskState | None, status: StatusDocument) -> str | None:
    """The batch that ended after a run had failed, most often by a command; None: the failure stands."""
    number, last, at = run.batch_number, status.get("last_batch"), status.get("last_committed_at")
    if last is None:
        return None
    if number is not None and not run.result("commit"):
        return f"batch {number} was delivered or given up" if number <= last else None
    # Without a batch of its own, only the clocks tell.
    failed_at = None if task is None else task.ended_at
    return "a batch ended" if at and failed_at and datetime.fromisoformat(at) > failed_at else None


def _settled(dag: DagState, run: RunState, ended: str, status: StatusDocument, now: datetime) -> Health:
    trouble = status.get("trouble")
    if trouble:
        sentence = f"{trouble['phase']}: {trouble['sentence']}"
        return Health(state=State.FAILED, sentence=sentence, run_id=run.run_id)
    idle = _idle(dag, status, schedule_stall(dag, status, now))
    return replace(idle, sentence=" ".join(filter(None, (f"The last run failed; {ended} since.", idle.sentence))))


def _sentence(task: TaskState, status: StatusDocument) -> str | None:
    if task.trouble is not None and task.trouble.get("sentence"):
        return str(task.trouble["sentence"])
    trouble = status.get("trouble")
    return trouble["sentence"] if trouble and trouble.get("phase") == task.task_id else None


def _why_again(task: TaskState, status: StatusDocument) -> str:
    tried = f"Try {task.try_number} of {task.max_tries + 1} of {task.task_id} failed; its log says why."
    return _sentence(task, status) or tried


def _told(state: State, run: RunState, task: TaskState | None, sentence: str | None) -> Health:
    return Health(
        state=state,
        sentence=sentence,
        run_id=run.run_id,
        task_id=None if task is None else task.task_id,
        try_number=None if task is None else task.try_number,
        since=run.started_at if task is None else task.started_at or run.started_at,
    )


def _first(run: RunState, *states: str) -> TaskState | None:
    return next((task for task in run.tasks.values() if task.state in states), None)
