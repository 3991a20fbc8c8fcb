from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from icefloe.orchestration.page.dag_state import DagState, RunState, TaskState
from icefloe.orchestration.page.health import State, health_of
from icefloe.orchestration.tasks.task_documents import PipelineFacts
from support.pipelines.pipeline_files import pipeline_from

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
LONG_AGO = NOW - timedelta(hours=2)
UP_TO_DATE = {"lag_snapshots": 0, "cursor_snapshot_id": "1"}
BEHIND = {"lag_snapshots": 3, "cursor_snapshot_id": "1"}


@pytest.fixture
def facts(tmp_path: Path) -> PipelineFacts:
    return PipelineFacts(pipeline=pipeline_from(tmp_path))


def run(state: str, *, trouble: str | None = None, **tasks: str) -> RunState:
    left = None if trouble is None else {"sentence": trouble}
    states = {
        task_id: TaskState(task_id=task_id, state=task_state, trouble=left if task_state != "success" else None)
        for task_id, task_state in tasks.items()
    }
    return RunState(run_id=f"run of {state}", state=state, tasks=states)


def health(facts: PipelineFacts, *runs: RunState, status: Any = None, **keys: Any) -> Any:
    return health_of(DagState(dag_id="flights", facts=facts, runs=runs, **keys), status, now=NOW)


def test_a_file_that_makes_no_dag_is_broken_and_says_why() -> None:
    broken = health(PipelineFacts(sentence="unknown key 'tabel'"), is_broken=True)
    assert (broken.state, broken.sentence) == (State.BROKEN, "unknown key 'tabel'")
    assert broken.needs_somebody


def test_a_failed_task_gives_its_own_sentence_before_that_of_the_status(facts: PipelineFacts) -> None:
    status = {"trouble": {"sentence": "an older one", "phase": "commit"}}
    failed = health(facts, run("failed", trouble="the sums differ", commit="failed"), status=status)
    assert (failed.state, failed.sentence, failed.task_id) == (State.FAILED, "the sums differ", "commit")


def test_the_status_speaks_where_the_task_left_nothing(facts: PipelineFacts) -> None:
    status = {"trouble": {"sentence": "the sums differ", "phase": "commit"}}
    assert health(facts, run("failed", commit="failed"), status=status).sentence == "the sums differ"


def test_a_task_that_left_no_sentence_was_killed_or_lost_its_worker(facts: PipelineFacts) -> None:
    killed = health(facts, run("failed", plan="success", shuffle_read="failed"), status=BEHIND)
    assert (killed.state, killed.task_id, killed.needs_somebody) == (State.FAILED, "shuffle_read", True)
    assert killed.sentence.startswith("shuffle_read was killed, most often because memory ran out, was marked")
    timed_out = health(facts, run("failed", plan="success", shuffle_read="skipped"))
    assert timed_out.sentence.startswith("The run failed, and none of its tasks did: its dagrun_timeout passed")


def test_a_dag_that_airflow_paused_after_failures_says_so(facts: PipelineFacts) -> None:
    failed = run("failed", trouble="no such table", plan="failed")
    paused = health(facts, failed, failed, failed, is_paused=True, max_failed_runs=3)
    assert paused.state is State.FAILED
    assert paused.sentence == (
        "no such table. Airflow paused the DAG after 3 failed runs: switch it on again afterwards."
    )


def test_a_task_that_is_tried_again_is_retrying(facts: PipelineFacts) -> None:
    again = health(facts, run("running", trouble="the store timed out", plan="up_for_retry"))
    assert (again.state, again.sentence) == (State.RETRYING, "the store timed out")


def test_a_task_of_a_paused_dag_is_not_tried_again_until_it_is_switched_on(facts: PipelineFacts) -> None:
    failed = run("running", trouble="the store timed out", plan="up_for_retry")
    held = health(facts, failed, is_paused=True)
    assert (held.state, held.task_id) == (State.BEHIND, "plan")
    assert held.sentence == ("The DAG is paused in the middle of a run: switch it on to finish it. the store timed out")
    goes_on = run("running", trouble="the store timed out", plan="up_for_retry", cleanup="running")
    assert health(facts, goes_on, is_paused=True).state is State.RETRYING


def test_a_sensor_that_waits_for_its_catalog_is_retrying(facts: PipelineFacts) -> None:
    waits = run("running", wait_for_snapshot="deferred")
    status = {**UP_TO_DATE, "trouble": {"sentence": "the catalog does not answer", "phase": "wait_for_snapshot"}}
    again = health(facts, waits, status=status)
    assert (again.state, again.task_id, again.needs_somebody) == (State.RETRYING, "wait_for_snapshot", False)
    assert again.sentence == "wait_for_snapshot looks again until it succeeds. the catalog does not answer"
    assert health(facts, waits, status=status, is_paused=True).state is State.PAUSED
    stalled = health(facts, waits, status={**status, **BEHIND, "waiting_since": LONG_AGO.isoformat()})
    assert stalled.needs_somebody


def test_a_run_after_a_failed_one_is_retrying_until_it_succeeds(facts: PipelineFacts) -> None:
    status = {**UP_TO_DATE, "trouble": {"sentence": "the store timed out", "phase": "commit"}}
    again = health(facts, run("running", plan="running"), run("failed", commit="failed"), status=status)
    assert again.state is State.RETRYING
    assert again.sentence == "The last run failed; plan is running again. the store timed out"


@pytest.mark.parametrize(("status", "state"), [(UP_TO_DATE, State.UP_TO_DATE), (BEHIND, State.BEHIND)])
def test_a_sensor_that_waits_is_no_work(facts: PipelineFacts, status: Mapping[str, Any], state: State) -> None:
    assert health(facts, run("running", wait_for_snapshot="deferred"), status=status).state is state
    assert health(facts, run("success", commit="success"), status=status).state is state


def test_a_task_at_work_is_running(facts: PipelineFacts) -> None:
    working = health(facts, run("running", plan="success", shuffle_read="running"), status=BEHIND)
    assert (working.state, working.task_id) == (State.RUNNING, "shuffle_read")


def test_a_cursor_that_left_the_history_is_behind_and_says_so(facts: PipelineFacts) -> None:
    lost = health(facts, run("success"), status={"lag_snapshots": None, "cursor_snapshot_id": "1"})
    assert lost.state is State.BEHIND
    assert "expired" in lost.sentence


def test_a_dag_that_never_ran_is_new_or_paused(facts: PipelineFacts) -> None:
    assert health(facts).state is State.NEW
    paused = health(facts, is_paused=True)
    assert (paused.state, paused.sentence) == (
        State.PAUSED,
        "The DAG is paused. It has never run: switch it on to begin.",
    )


def test_a_paused_dag_whose_table_moves_on_is_behind(facts: PipelineFacts) -> None:
    behind = health(facts, run("success"), status=BEHIND, is_paused=True)
    assert (behind.state, behind.needs_somebody) == (State.BEHIND, False)
    assert behind.sentence == (
        "The DAG is paused while its table moves on: 3 snapshots wait. Switch it on to deliver the changes."
    )
    assert health(facts, run("success"), status=UP_TO_DATE, is_paused=True).state is State.PAUSED


def test_a_dag_that_is_paused_in_the_middle_of_a_run_says_that_the_run_waits(facts: PipelineFacts) -> None:
    held = health(facts, run("running", shuffle_write="success", coalesce="scheduled"), status=BEHIND, is_paused=True)
    assert (held.state, held.task_id, held.is_stalled) == (State.BEHIND, "coalesce", False)
    assert held.sentence == "The DAG is paused in the middle of a run: switch it on to finish it."
    ending = health(facts, run("running", shuffle_write="running"), status=BEHIND, is_paused=True)
    assert (ending.state, ending.sentence) == (State.RUNNING, None)


@pytest.mark.parametrize("minutes", [1, 20])
def test_a_sensor_that_overlooks_commits_for_long_has_lost_its_triggerer(facts: PipelineFacts, minutes: int) -> None:
    status = {**BEHIND, "waiting_since": (NOW - timedelta(minutes=minutes)).isoformat()}
    found = health(facts, run("running", wait_for_snapshot="deferred"), status=status)
    assert (found.state, found.needs_somebody) == (State.BEHIND, minutes == 20)
    assert ("triggerer" in (found.sentence or "")) == (minutes == 20)


def test_a_run_that_is_due_and_does_not_begin_has_lost_its_scheduler(facts: PipelineFacts) -> None:
    status = {**BEHIND, "waiting_since": LONG_AGO.isoformat()}
    late = health(facts, run("success"), status=status, next_run_at=LONG_AGO)
    assert (late.state, late.needs_somebody) == (State.BEHIND, True)
    assert "scheduler" in late.sentence
    assert not health(facts, run("success"), status=status, next_run_at=NOW + timedelta(minutes=4)).needs_somebody
    assert not health(facts, run("success"), status=UP_TO_DATE, next_run_at=LONG_AGO).needs_somebody


def test_a_task_that_nobody_takes_is_reported(facts: PipelineFacts) -> None:
    waiting = TaskState(task_id="plan", state="queued", queued_at=LONG_AGO)
    stuck = health(facts, RunState(run_id="r", state="running", tasks={"plan": waiting}))
    assert (stuck.state, stuck.needs_somebody) == (State.RUNNING, True)
    assert "no worker takes it" in stuck.sentence


def test_a_task_that_is_never_queued_waits_since_it_was_scheduled(facts: PipelineFacts) -> None:
    waiting = TaskState(task_id="plan", state="scheduled", scheduled_at=LONG_AGO)
    stuck = health(facts, RunState(run_id="r", state="running", tasks={"plan": waiting}))
    assert (stuck.state, stuck.needs_somebody) == (State.RUNNING, True)
    assert stuck.sentence.startswith("plan is scheduled and no worker takes it: check the slots of its pool")


@pytest.mark.parametrize(
    "times",
    [
        {"state": "scheduled", "scheduled_at": NOW, "queued_at": LONG_AGO},
        {"state": "queued", "scheduled_at": LONG_AGO, "queued_at": NOW},
    ],
)
def test_a_task_that_just_came_to_wait_is_at_work_whatever_its_earlier_times(
    facts: PipelineFacts, times: Mapping[str, Any]
) -> None:
    tasks = {"plan": TaskState(task_id="plan", **times)}
    working = health(facts, RunState(run_id="r", state="running", tasks=tasks))
    assert (working.state, working.needs_somebody, working.sentence) == (State.RUNNING, False, None)
