"""The task of a phase submits a Spark job, or refuses to."""

import logging
import os
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from icefloe.errors import TransientError
from icefloe.flow import Route
from icefloe.orchestration.tasks import calls
from icefloe.orchestration.tasks.spark_phase_operator import SparkPhaseOperator
from orchestration.tasks.spark_phase_tasks import PREPARED, SECRET, FakeSparkSubmit, context_of, operator
from support.pipelines.pipeline_files import pipeline_from


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSparkSubmit:
    return FakeSparkSubmit(tmp_path, monkeypatch)


def test_a_task_of_another_route_starts_no_job(tmp_path: Path, spark: FakeSparkSubmit) -> None:
    other = {**PREPARED, "plan_uri": "file:///nowhere/7/plan.json", "route": Route.SHUFFLE.value}
    with pytest.raises(AirflowSkipException, match="takes the route shuffle"):
        operator(tmp_path).execute({"ti": SimpleNamespace(xcom_pull=lambda **_: other)})
    assert spark.calls == []


def test_secrets_are_in_the_environment_and_nowhere_else(tmp_path: Path, spark: FakeSparkSubmit) -> None:
    task = operator(tmp_path, storage_conn_id="lake")
    task.execute(context_of(tmp_path))
    [arguments] = spark.calls
    assert arguments.startswith("--master local[2] ")
    assert arguments.endswith(f"/spark_jobs/insert_only.py file://{tmp_path}/shuffle/flights/7/plan.json")
    assert SECRET in spark.environment
    assert SECRET not in arguments
    assert SECRET not in os.environ.get("ICEFLOE_CREDENTIALS", "")
    assert not SparkPhaseOperator.template_fields


@pytest.mark.parametrize("while_it", ["reference_of", "phases_of"])
def test_a_task_that_is_ended_while_it_looks_begins_no_job(
    while_it: str, tmp_path: Path, spark: FakeSparkSubmit, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, look = operator(tmp_path), getattr(calls, while_it)

    def ended(*given: Any) -> Any:
        task.on_kill()
        return look(*given)

    monkeypatch.setattr(calls, while_it, ended)
    with pytest.raises(TransientError, match="was ended from outside before its Spark job began"):
        task.execute(context_of(tmp_path))
    assert spark.calls == []


def test_a_task_that_is_ended_ends_its_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark = FakeSparkSubmit(tmp_path, monkeypatch, "exec sleep 600")
    task = operator(tmp_path)

    def end() -> None:
        while not spark.calls:
            time.sleep(0.01)
        task.on_kill()

    killer = threading.Thread(target=end)
    killer.start()
    with pytest.raises(TransientError, match=r"spark-submit of insert_only ended with exit code -15"):
        task.execute(context_of(tmp_path))
    killer.join()


@pytest.mark.parametrize("engine", ["spark", "local"])
def test_a_phase_whose_plan_was_marked_as_success_says_what_to_clear(
    tmp_path: Path, spark: FakeSparkSubmit, engine: str
) -> None:
    with DAG("flights", schedule=None):
        task = SparkPhaseOperator(
            task_id="insert_only", phase="insert_only", pipeline=pipeline_from(tmp_path, engine=engine)
        )
    context: Any = {"ti": SimpleNamespace(xcom_pull=lambda **_: None)}
    with pytest.raises(AirflowFailException, match=r"^insert_only: plan returned no batch: .*; clear plan$"):
        task.execute(context)
    assert spark.calls == []


def test_a_job_that_died_without_a_word_says_its_last_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lines = [
        f"the key is {SECRET}", "100% s3.session-token=vended-by-the-catalog",
        "All masters are unresponsive! Giving up.", "26/11/26 06:12:00 INFO ShutdownHookManager: bye", "\tat a.B(C)",
    ]  # fmt: skip
    FakeSparkSubmit(tmp_path, monkeypatch, "\n".join(["cat <<'END'", *lines, "END", "exit 137"]))
    caplog.set_level(logging.INFO)
    with pytest.raises(
        TransientError,
        match=r"^spark-submit of insert_only ended with exit code 137 and left no .* it last said: All masters are",
    ):
        operator(tmp_path, storage_conn_id="lake").execute(context_of(tmp_path))
    assert "100% s3.session-token=***" in caplog.text
    assert SECRET not in caplog.text
    assert "vended-by-the-catalog" not in caplog.text


@pytest.mark.spark
def test_a_real_job_reports_why_it_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
    with pytest.raises(AirflowFailException, match=r"insert_only: there is no plan at file://.*/7/plan\.json"):
        operator(tmp_path).execute(context_of(tmp_path))
