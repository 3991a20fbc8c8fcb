from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from icefloe.orchestration.page.dag_reader import DagState, RunState, TaskState
from icefloe.orchestration.page.health import State, health_of
from icefloe.orchestration.tasks.task_documents import PipelineFacts
from support.pipelines.pipeline_files import pipeline_from

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
LONG_AGO = NOW - timedelta(hours=2)
UP_TO_DATE = {"lag_snapshots": 0, "cursor_snapshot_id": "1"}
BEHIND = {"lag_snapshots": 3, "cursor_snapshot_id": "1"}
WAITING = {**BEHIND, "waiting_since": LONG_AGO.isoformat()}
PAUSED: dict[str, Any] = {"is_paused": True}


def run(state: str, *, trouble: str | None = None, **tasks: str) -> RunState:
    left = None if trouble is None else {"sentence": trouble}
    states = {
        task_id: TaskState(task_id=task_id, state=task_state, trouble=left if task_state != "success" else None)
        for task_id, task_state in tasks.items()
    }
    return RunState(run_id=f"run of {state}", state=state, tasks=states)


def failed_in(task_id: str, **results: int) -> RunState:
    """A run whose task failed an hour ago, after others gave back the numbers of their batches."""
    before = {
        name: TaskState(task_id=name, state="success", result={"batch_number": number})
        for name, number in results.items()
    }
    ended_at = NOW - timedelta(hours=1)
    failed = TaskState(task_id=task_id, state="failed", ended_at=ended_at, trouble={"sentence": "give the batch up"})
    return RunState(run_id="r", state="failed", tasks={**before, task_id: failed})


def ended(batch: int, *, at: datetime = NOW, **keys: Any) -> dict[str, Any]:
    return {**UP_TO_DATE, "last_batch": batch, "last_committed_at": at.isoformat(), **keys}


def troubled(sentence: str, phase: str, **keys: Any) -> dict[str, Any]:
    return {**keys, "trouble": {"sentence": sentence, "phase": phase}}


def waits(**times: Any) -> RunState:
    return RunState(run_id="r", state="running", tasks={"plan": TaskState(task_id="plan", **times)})


SENSOR = run("running", wait_for_snapshot="deferred")
FAILED = run("failed", trouble="the sums differ", commit="failed")
AGAIN = run("running", trouble="the store timed out", plan="up_for_retry")
SILENT_CATALOG = troubled("the catalog does not answer", "wait_for_snapshot", **UP_TO_DATE)
LOOKS_AGAIN = "wait_for_snapshot looks again until it succeeds. the catalog does not answer"
IN_THE_MIDDLE = "The DAG is paused in the middle of a run: switch it on to finish it."
S = State

CASES: dict[str, tuple[list[RunState], Any, dict[str, Any], tuple[State, str | None, str | None, bool]]] = {
    "a failed task gives its own sentence before the status": (
        [FAILED], troubled("an older one", "commit"), {}, (S.FAILED, "commit", "the sums differ", True)),
    "the status speaks if the task left nothing": (
        [run("failed", commit="failed")], troubled("the sums differ", "commit"), {},
        (S.FAILED, "commit", "the sums differ", True)),
    "a task that left no sentence was killed": (
        [run("failed", plan="success", shuffle_read="failed")], BEHIND, {},
        (S.FAILED, "shuffle_read", "shuffle_read was killed, most often because memory ran out, was marked", True)),
    "a run that was timed out": (
        [run("failed", plan="success", shuffle_read="skipped")], None, {},
        (S.FAILED, None, "The run failed, and none of its tasks did: its dagrun_timeout passed", True)),
    "Airflow paused the DAG after failures": (
        [FAILED] * 3, None, {**PAUSED, "max_failed_runs": 3},
        (S.FAILED, "commit",
         "the sums differ. Airflow paused the DAG after 3 failed runs: switch it on again afterwards.", True)),
    "a batch that ended after its run had failed": (
        [failed_in("check", plan=5)], ended(5), {},
        (S.UP_TO_DATE, None, "The last run failed; batch 5 was delivered or given up since.", False)),
    "a batch that ended, by the clock of a slow machine, before its run had failed": (
        [failed_in("check", plan=5)], ended(6, at=LONG_AGO), {}, (S.UP_TO_DATE, None, "The last run failed; ", False)),
    "a batch that ended while its DAG is paused and its table moves on": (
        [failed_in("check", plan=5)], ended(5, lag_snapshots=3), PAUSED,
        (S.BEHIND, None, "~was delivered or given up since. The DAG is paused while its table moves on", False)),
    "a batch that is still open": (
        [failed_in("check", plan=5)], ended(4), {}, (S.FAILED, "check", "give the batch up", True)),
    "another batch fails after the one of the run": (
        [failed_in("check", plan=5)], troubled("batch 6 has wrong rows", "check", **ended(5)), {},
        (S.FAILED, None, "check: batch 6 has wrong rows", True)),
    "a cleanup that failed after the commit of its run": (
        [failed_in("cleanup", plan=5, commit=5)], ended(5, at=LONG_AGO), {},
        (S.FAILED, "cleanup", "give the batch up", True)),
    "a plan that failed before a batch ended": (
        [failed_in("plan")], ended(5), {}, (S.UP_TO_DATE, None, "The last run failed; a batch ended since.", False)),
    "a plan that failed after the last batch": (
        [failed_in("plan")], ended(5, at=LONG_AGO), {}, (S.FAILED, "plan", "give the batch up", True)),
    "a task that is tried again": ([AGAIN], None, {}, (S.RETRYING, "plan", "the store timed out", False)),
    "a task of a paused DAG is not tried again": (
        [AGAIN], None, PAUSED, (S.BEHIND, "plan", f"{IN_THE_MIDDLE} the store timed out", False)),
    "a paused DAG whose run goes on": (
        [run("running", trouble="the store timed out", plan="up_for_retry", cleanup="running")], None, PAUSED,
        (S.RETRYING, "plan", "", False)),
    "a sensor that waits for its catalog": (
        [SENSOR], SILENT_CATALOG, {}, (S.RETRYING, "wait_for_snapshot", LOOKS_AGAIN, False)),
    "a sensor of a paused DAG": ([SENSOR], SILENT_CATALOG, PAUSED, (S.PAUSED, None, "", False)),
    "a sensor that waits for its catalog for long": (
        [SENSOR], {**SILENT_CATALOG, **WAITING}, {}, (S.RETRYING, "wait_for_snapshot", "", True)),
    "a run after a failed one": (
        [run("running", plan="running"), run("failed", commit="failed")],
        troubled("the store timed out", "commit", **UP_TO_DATE), {},
        (S.RETRYING, "plan", "The last run failed; plan is running again. the store timed out", False)),
    "a sensor that waits for a quiet table": ([SENSOR], UP_TO_DATE, {}, (S.UP_TO_DATE, None, None, False)),
    "a sensor that waits at a moving table": ([SENSOR], BEHIND, {}, (S.BEHIND, None, "", False)),
    "a run that ended": ([run("success", commit="success")], UP_TO_DATE, {}, (S.UP_TO_DATE, None, None, False)),
    "a task at work": (
        [run("running", plan="success", shuffle_read="running")], BEHIND, {},
        (S.RUNNING, "shuffle_read", None, False)),
    "a cursor that left the history": (
        [run("success")], {"lag_snapshots": None, "cursor_snapshot_id": "1"}, {}, (S.BEHIND, None, "~expired", False)),
    "a DAG that never ran": ([], None, {}, (S.NEW, None, "", False)),
    "a paused DAG that never ran": (
        [], None, PAUSED, (S.PAUSED, None, "The DAG is paused. It has never run: switch it on to begin.", False)),
    "a paused DAG whose table moves on": (
        [run("success")], BEHIND, PAUSED,
        (S.BEHIND, None, "The DAG is paused while its table moves on: 3 snapshots wait. Switch it on", False)),
    "a paused DAG whose table is quiet": ([run("success")], UP_TO_DATE, PAUSED, (S.PAUSED, None, "", False)),
    "a DAG that is paused in the middle of a run": (
        [run("running", shuffle_write="success", coalesce="scheduled")], BEHIND, PAUSED,
        (S.BEHIND, "coalesce", IN_THE_MIDDLE, False)),
    "a paused DAG whose task is at work": (
        [run("running", shuffle_write="running")], BEHIND, PAUSED, (S.RUNNING, "shuffle_write", None, False)),
    "a sensor that overlooks commits for long": ([SENSOR], WAITING, {}, (S.BEHIND, None, "~triggerer", True)),
    "a sensor that overlooks commits for a minute": (
        [SENSOR], {**BEHIND, "waiting_since": (NOW - timedelta(minutes=1)).isoformat()}, {},
        (S.BEHIND, None, "", False)),
    "a run that is due and does not begin": (
        [run("success")], WAITING, {"next_run_at": LONG_AGO}, (S.BEHIND, None, "~scheduler", True)),
    "a run that is due soon": (
        [run("success")], WAITING, {"next_run_at": NOW + timedelta(minutes=4)}, (S.BEHIND, None, "", False)),
    "a run that is due without work": (
        [run("success")], UP_TO_DATE, {"next_run_at": LONG_AGO}, (S.UP_TO_DATE, None, None, False)),
    "a task that nobody takes": (
        [waits(state="queued", queued_at=LONG_AGO)], None, {}, (S.RUNNING, "plan", "~no worker takes it", True)),
    "a task that is never queued": (
        [waits(state="scheduled", scheduled_at=LONG_AGO)], None, {},
        (S.RUNNING, "plan", "plan is scheduled and no worker takes it: check the slots of its pool", True)),
    "a task that was scheduled again just now": (
        [waits(state="scheduled", scheduled_at=NOW, queued_at=LONG_AGO)], None, {}, (S.RUNNING, "plan", None, False)),
    "a task that was queued just now": (
        [waits(state="queued", scheduled_at=LONG_AGO, queued_at=NOW)], None, {}, (S.RUNNING, "plan", None, False)),
}  # fmt: skip
"""Runs, status and keys of a DAG; the state, task and sentence that are shown (~: in it), and if it needs somebody."""


@pytest.mark.parametrize("name", CASES)
def test_the_health_of_a_pipeline(tmp_path: Path, name: str) -> None:
    runs, status, keys, (state, task_id, sentence, needs_somebody) = CASES[name]
    facts = PipelineFacts(pipeline=pipeline_from(tmp_path))
    found = health_of(DagState(dag_id="flights", facts=facts, runs=tuple(runs), **keys), status, now=NOW)
    assert (found.state, found.needs_somebody) == (state, needs_somebody)
    if sentence is None:
        assert found.sentence is None
    elif sentence.startswith("~"):
        assert sentence[1:] in (found.sentence or "")
    else:
        assert (found.sentence or "").startswith(sentence)
    assert task_id is None or found.task_id == task_id


def test_a_file_that_makes_no_dag_is_broken_and_says_why() -> None:
    facts = PipelineFacts(sentence="unknown key 'tabel'")
    broken = health_of(DagState(dag_id="flights", facts=facts, is_broken=True), None, now=NOW)
    assert (broken.state, broken.sentence, broken.needs_somebody) == (State.BROKEN, "unknown key 'tabel'", True)


@pytest.mark.parametrize(
    ("state", "tasks", "expected"),
    [
        ("failed", {"flights.plan": "success", "use": "failed"}, "success"),
        ("failed", {"flights.plan": "failed", "use": "upstream_failed"}, "failed"),
        ("failed", {"flights.plan": "skipped", "use": "skipped"}, "failed"),
        ("failed", {"before": "failed", "flights.plan": "upstream_failed"}, "success"),
        ("running", {"flights.plan": "success", "use": "running"}, "success"),
        ("running", {"flights.plan": "failed", "flights2.plan": "running"}, "failed"),
        ("running", {"flights.plan": "up_for_retry", "use": None}, "running"),
    ],
)
def test_a_group_ends_as_its_own_tasks_do(state: str, tasks: dict[str, str], expected: str) -> None:
    found = run(state, **tasks).of_group("flights")
    assert (found.state, {task.task_id for task in found.tasks.values()}) == (expected, {"plan"})
