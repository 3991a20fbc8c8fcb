from pathlib import Path

import pytest
from airflow.sdk import DAG, TaskGroup
from airflow.serialization.serialized_objects import DagSerialization

from icefloe import batch_task_group
from icefloe.errors import TerminalError
from icefloe.orchestration.dags.dag_factory import make_dags
from icefloe.orchestration.tasks.failures import LostTask
from support.pipelines.pipeline_files import write_pipeline


def told(context: object) -> None:
    """A callback of somebody's own."""


def edges(dag: DAG) -> set[tuple[str, str]]:
    return {(task.task_id, below) for task in dag.tasks for below in task.downstream_task_ids}


def test_a_group_has_the_tasks_of_the_pipeline_dag_in_the_same_order_without_its_sensor(tmp_path: Path) -> None:
    path = write_pipeline(tmp_path, checks=[{"name": "ids", "query": "select * from changes where flight_id is null"}])
    of_file = make_dags(tmp_path)["flights"]
    with DAG("own", schedule=None) as plain:
        batch_task_group(path)
    with DAG("waiting", schedule=None) as waiting:
        batch_task_group(path, waits=True)
    prefixed = {(f"flights.{before}", f"flights.{after}") for before, after in edges(of_file)}
    assert edges(waiting) == prefixed
    assert edges(plain) == {edge for edge in prefixed if edge[0] != "flights.wait_for_snapshot"}
    assert waiting.get_task("flights.wait_for_snapshot").waits is True
    assert plain.get_task("flights.commit").trigger_rule == "none_failed_min_one_success"
    assert plain.get_task("flights.cleanup").trigger_rule == "none_failed"
    assert list(plain.task_group.get_child_by_label("flights").get_leaves()) == [plain.get_task("flights.cleanup")]
    assert plain.tags == {"icefloe"}
    # Consumers of the pipeline's changes start whatever DAG delivered them.
    assert plain.get_task("flights.commit").outlets == of_file.get_task("commit").outlets


def test_a_path_is_relative_to_the_dag_file_and_two_groups_are_two_pipelines(tmp_path: Path) -> None:
    write_pipeline(tmp_path, "flights")
    write_pipeline(tmp_path, "trains")
    with DAG("own", schedule=None) as dag:
        dag.fileloc = str(tmp_path / "own.py")
        flights = batch_task_group("flights.yaml")
        with TaskGroup("late"):
            trains = batch_task_group("trains.yaml", group_id="rail")
        flights >> trains
    assert {"flights.plan", "late.rail.plan"} <= set(dag.task_ids)
    assert ("flights.cleanup", "late.rail.plan") in edges(dag)
    assert DagSerialization.to_dict(dag)


def test_the_file_has_the_last_word_about_arguments_and_callbacks_of_the_dag_are_called_too(tmp_path: Path) -> None:
    path = write_pipeline(tmp_path, default_args={"pool": "lake"})
    with DAG("own", schedule=None, default_args={"retries": 7, "pool": "mine", "on_failure_callback": told}):
        group = batch_task_group(path)
    with DAG("bare", schedule=None):
        bare = batch_task_group(path)
    for task in group:
        lost, mine = task.on_failure_callback
        assert (task.retries, task.pool, mine) == (7, "lake", told)
        assert isinstance(lost, LostTask)
        assert [type(each) for each in task.on_retry_callback] == [LostTask]
    assert {task.retries for task in bare} == {3}


def test_a_wrong_file_is_an_import_error_of_the_dag_that_says_where(tmp_path: Path) -> None:
    path = write_pipeline(tmp_path, tabel="nyc.flights")
    with DAG("own", schedule=None), pytest.raises(TerminalError, match=r"flights\.yaml.*tabel"):
        batch_task_group(path)
