"""The task of a phase submits a Spark job, or refuses to."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

import icefloe
from icefloe.engines.spark.application import SPARK_JOBS
from icefloe.errors import TransientError
from icefloe.flow import Route
from icefloe.orchestration.tasks import calls as use_cases
from icefloe.orchestration.tasks.spark_phase_operator import SparkPhaseOperator
from orchestration.tasks.spark_phase_tasks import CONTEXT, PLAN_URI, PREPARED, SECRET, fake_spark_submit, operator
from support.pipelines.pipeline_files import pipeline_from

pytestmark = pytest.mark.usefixtures("connections")


def test_a_task_of_another_route_starts_no_job(tmp_path: Path, submitted: list[dict[str, Any]]) -> None:
    other = {**PREPARED, "route": Route.SHUFFLE.value}
    with pytest.raises(AirflowSkipException, match="takes the route shuffle"):
        operator(tmp_path).execute({"ti": SimpleNamespace(xcom_pull=lambda **_: other)})
    assert submitted == []


def test_a_job_on_this_machine_gets_the_plans_uri_and_the_library_where_it_is(
    tmp_path: Path, submitted: list[dict[str, Any]]
) -> None:
    operator(tmp_path).execute(CONTEXT)
    [call] = submitted
    assert call["command"][-2:] == [str(SPARK_JOBS / "insert_only.py"), PLAN_URI]
    assert call["command"][1:3] == ["--master", "local[2]"]
    assert (call["zipped"], call["linked"]) == ([], Path(icefloe.__file__).resolve().parent)
    operator(tmp_path).execute(CONTEXT)
    assert call["env"]["ICEFLOE_ATTEMPT"] != submitted[1]["env"]["ICEFLOE_ATTEMPT"]


def test_a_job_on_a_cluster_gets_the_library_in_a_zip(
    tmp_path: Path, submitted: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "spark://host", "port": 7077}')
    operator(tmp_path, storage_is_shared=True).execute(CONTEXT)
    [[zipped]] = [call["zipped"] for call in submitted]
    assert zipped.startswith("icefloe-")
    assert zipped.endswith(".zip")


def test_secrets_are_in_the_environment_and_nowhere_else(tmp_path: Path, submitted: list[dict[str, Any]]) -> None:
    task = operator(tmp_path, storage_conn_id="lake")
    task.execute(CONTEXT)
    [call] = submitted
    assert SECRET in call["env"]["ICEFLOE_CREDENTIALS"]
    assert SECRET not in " ".join(call["command"])
    assert SECRET not in os.environ.get("ICEFLOE_CREDENTIALS", "")
    assert SECRET not in repr([getattr(task, field) for field in SparkPhaseOperator.template_fields])


def test_only_the_plans_uri_is_rendered_and_comes_from_the_plan_task(tmp_path: Path) -> None:
    assert SparkPhaseOperator.template_fields == ("application_args",)
    task = SparkPhaseOperator(task_id="insert_only", phase="insert_only", pipeline=pipeline_from(tmp_path))
    task.render_template_fields(CONTEXT)
    assert task.application_args == [PLAN_URI]


@pytest.mark.parametrize("value", [None, "spark://local[2]", "spark://master:7077?deploy-mode=cluster"])
def test_a_connection_that_would_mislead_airflow_fails_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, submitted: list[dict[str, Any]], value: str | None
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")
    if value:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", value)
    with pytest.raises(AirflowFailException, match="insert_only: the Spark connection 'spark_default'"):
        operator(tmp_path).execute(CONTEXT)
    assert submitted == []


def test_a_disk_of_one_machine_is_refused_for_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, submitted: list[dict[str, Any]]
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", "spark://master:7077")
    with pytest.raises(AirflowFailException, match="a disk of one machine"):
        operator(tmp_path).execute(CONTEXT)
    operator(tmp_path, storage_is_shared=True).execute(CONTEXT)
    assert len(submitted) == 1


def test_a_task_that_is_ended_before_its_job_begins_submits_none(
    tmp_path: Path, submitted: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = operator(tmp_path)
    credentials = use_cases.driver_environment_of

    def end_meanwhile(*arguments: Any) -> Any:
        task.on_kill()
        return credentials(*arguments)

    monkeypatch.setattr(use_cases, "driver_environment_of", end_meanwhile)
    with pytest.raises(TransientError, match="ended from outside before its Spark job began"):
        task.execute(CONTEXT)
    assert submitted == []


def test_the_local_engine_runs_the_phase_in_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, submitted: list[dict[str, Any]]
) -> None:
    ran: list[tuple[str, Any]] = []
    monkeypatch.setattr(use_cases, "run_phase_here", lambda _, phase, prepared: ran.append((phase, prepared)))
    task = operator(tmp_path, engine="local")
    task.execute(CONTEXT)
    task.on_kill()
    assert (ran, submitted) == ([("insert_only", PREPARED)], [])


def test_a_spark_submit_next_to_the_interpreter_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_spark_submit(tmp_path, f'env > {tmp_path}/env; echo "$@" > {tmp_path}/arguments', monkeypatch)
    operator(tmp_path, storage_conn_id="lake").execute(CONTEXT)
    assert SECRET in (tmp_path / "env").read_text()
    assert SECRET not in (tmp_path / "arguments").read_text()


@pytest.mark.parametrize("engine", ["spark", "local"])
def test_a_phase_whose_plan_was_marked_as_success_says_what_to_clear(
    tmp_path: Path, submitted: list[dict[str, Any]], engine: str
) -> None:
    with DAG("flights", schedule=None):  # a DAG refuses to render undefined values
        task = SparkPhaseOperator(
            task_id="insert_only", phase="insert_only", pipeline=pipeline_from(tmp_path, engine=engine)
        )
    context: Any = {"ti": SimpleNamespace(xcom_pull=lambda **_: None)}
    task.render_template_fields(context)
    with pytest.raises(AirflowFailException, match=r"^insert_only: plan returned no batch: .*; clear plan$"):
        task.execute(context)
    assert submitted == []
