"""The tasks of a batch in DAGs of somebody's own, run as `airflow dags test` does."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import airflow_environment
from icefloe.errors import TerminalError
from icefloe.orchestration.page.dag_reader import DagReader
from support.pipelines.lake import Lake, TaskStates
from support.servers.daemons import wait_until

pytestmark = pytest.mark.airflow
RunDag = Callable[..., TaskStates]

OWN = """
from airflow.sdk import DAG, task

from icefloe import batch_task_group

with DAG("own", schedule="@daily", catchup=False, max_active_runs=4, default_args={"retries": 0}, tags=["backfill"]):

    @task.short_circuit(ignore_downstream_trigger_rules=False)
    def wanted(dag_run) -> bool:
        return dag_run.conf.get("wanted", True)

    @task
    def use(ti) -> int:
        return ti.xcom_pull(task_ids="flights.cleanup")

    @task
    def fail(dag_run) -> None:
        assert not dag_run.conf.get("fails")

    @task
    def beside(number, dag_run) -> None:
        assert number != dag_run.conf.get("fails_at")

    wanted() >> batch_task_group("pipelines/flights.yaml") >> use() >> fail()
    beside.expand(number=[0, 1])
"""
GROUP = ("plan", "route", "insert_only", "commit", "cleanup")


@pytest.fixture
def own(lake: Lake) -> Iterator[Path]:
    path = airflow_environment.DAGS / "own.py"
    path.write_text(OWN)
    lake.write_pipeline("flights")
    yield path
    path.unlink()


def used(run: TaskStates) -> object:
    """The number that the task after the group found."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    with create_session() as session:
        wanted = XComModel.run_id == run.run_id, XComModel.task_id == "use", XComModel.key == "return_value"
        return session.query(XComModel.value).filter(*wanted).scalar()


def test_tasks_after_the_group_run_and_know_the_number_of_changes_if_there_are_none_too(
    lake: Lake, run_dag: RunDag, own: Path, clear_task: Callable[[str, str, str], str]
) -> None:
    lake.append((1, "AA"), (2, "UA"))
    first = run_dag("own", any="configuration")
    assert (first.run_state, used(first)) == ("success", 2)
    assert first.in_state("skipped") == {
        f"flights.{name}" for name in ("shuffle_write", "coalesce", "shuffle_read", "nothing_to_do")
    }
    lake.replace_carrier(2, "DL")
    second = run_dag("own")
    assert (second.run_state, used(second)) == ("success", 2)
    assert lake.changes(1) == {("UPDATE_BEFORE", 2, "UA"): 1, ("UPDATE_AFTER", 2, "DL"): 1}
    assert clear_task("own", second.run_id, "flights.commit") == "success"
    quiet = run_dag("own")
    assert (quiet.run_state, used(quiet), quiet.by_task["flights.commit"]) == ("success", 0, "skipped")


def test_a_mapped_task_that_fails_does_not_decide_how_the_group_ended(lake: Lake, run_dag: RunDag, own: Path) -> None:
    from airflow.utils.session import create_session

    lake.append((1, "AA"))
    assert run_dag("own", fails_at=0).run_state == "failed"
    with create_session() as session:
        [dag] = DagReader().dags(session, {"own"})
    assert dag.last_run is not None
    assert (dag.group, dag.last_run.state) == ("flights", "success")


def test_a_group_that_is_skipped_as_a_whole_opens_no_batch(lake: Lake, run_dag: RunDag, own: Path) -> None:
    lake.append((1, "AA"))
    skipped = run_dag("own", wanted=False)
    assert skipped.in_state("success") == {"wanted", "beside"}
    assert not (lake.folder / "storage").exists()


@pytest.mark.parametrize("other", ["own", "flights"])
def test_runs_at_once_deliver_one_batch(
    lake: Lake, run_dag: RunDag, own: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    """A whole run, of this DAG or of the pipeline's own, passes between the plan and the phase of another."""
    from icefloe.orchestration.tasks import calls

    begun: list[Any] = []
    passed: list[TaskStates] = []

    def after_another(*arguments: Any) -> Any:
        begun.append(arguments)
        if len(begun) == 1:
            passed.append(run_dag(other))
        return skip_other_route(*arguments)

    skip_other_route = calls.skip_other_route
    monkeypatch.setattr(calls, "skip_other_route", after_another)
    lake.append((1, "AA"))
    run = run_dag("own")
    assert [each.run_state for each in (run, *passed)] == ["success", "success"]
    assert (used(run), lake.changes(0)) == (1, {("INSERT", 1, "AA"): 1})
    assert not (lake.folder / "changes" / "batch=1").exists()


def test_the_page_shows_a_group_as_a_pipeline_whatever_becomes_of_the_other_tasks_of_its_dag(
    lake: Lake, run_dag: RunDag, own: Path, client: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.append((1, "AA"))
    with monkeypatch.context() as patched:
        broken = mock.Mock(side_effect=TerminalError("the store is full"))
        patched.setattr("icefloe.engines.phase_runner.commit_batch", broken)
        failed = run_dag("own")
    assert failed.in_state("failed") == {"flights.commit"}
    row = client("api/pipelines/own", "own").json()["pipeline"]
    assert (row["pipeline"], row["group"], row["task_id"], row["sentence"]) == (
        "flights", "flights", "commit", "the store is full",
    )  # fmt: skip
    assert row["status"]["trouble"]["phase"] == "commit"

    run = run_dag("own", fails=True)
    assert run.in_state("failed") == {"fail"}
    # While the batch was open, its report was missing.
    entry = wait_until(
        lambda: (
            None
            if (found := client(f"api/pipelines/own/runs/{run.run_id}", "own").json())["report_sentence"]
            else found
        ),
        what="the report",
        seconds=60,
    )
    assert (entry["group"], entry["run"]["state"], entry["batch"]["state"]) == ("flights", "success", "committed")
    assert {task["task_id"] for task in entry["run"]["tasks"]} >= set(GROUP)
    assert "fail" not in {task["task_id"] for task in entry["run"]["tasks"]}
    [row] = [each for each in client("api/overview", "own").json()["pipelines"] if each["dag_id"] == "own"]
    assert row["state"] == "paused"
    assert client("api/pipelines/own?group=trains", "own").status_code == 404


def test_a_dag_with_several_groups_has_a_page_for_each(
    lake: Lake, run_dag: RunDag, own: Path, client: Callable[..., Any]
) -> None:
    lake.write_pipeline("again", sink={"type": "files", "path": f"file://{lake.folder}/again"})
    own.write_text(OWN + '    batch_task_group("pipelines/again.yaml", group_id="twice")\n')
    lake.append((1, "AA"))
    run = run_dag("own")
    assert run.run_state == "success"
    for path in ("api/pipelines/own", f"api/pipelines/own/runs/{run.run_id}"):
        found = client(path, "own").json()
        assert {(each["pipeline"], each["group"]) for each in found["pipelines"]} == {
            ("flights", "flights"),
            ("again", "twice"),
        }
    found = client("api/pipelines/own/batches/0?group=twice", "own").json()
    assert (found["pipeline"], found["group"], found["batch"]["batch"]["counts"]["insert"]) == ("again", "twice", 1)
