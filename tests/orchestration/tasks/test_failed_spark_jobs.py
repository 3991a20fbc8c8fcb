"""A Spark job that fails, dies or cannot be started ends its task with one sentence."""

import errno
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from icefloe.batch.context.task_attempt import JobError
from icefloe.errors import TransientError
from icefloe.orchestration.tasks import calls as use_cases
from orchestration.tasks.spark_phase_tasks import CONTEXT, PREPARED, SECRET, fake_spark_submit, operator

pytestmark = pytest.mark.usefixtures("connections")


def fail_with(monkeypatch: pytest.MonkeyPatch, error: JobError | None) -> None:
    def submit(self: SparkSubmitHook, application: str, *, env: dict[str, str]) -> None:
        raise AirflowException("exit code 1")

    monkeypatch.setattr(SparkSubmitHook, "submit", submit)
    monkeypatch.setattr(use_cases, "read_job_error", lambda *_: error)


def test_an_error_of_the_job_that_stays_fails_the_task_with_its_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_with(monkeypatch, JobError(family="terminal", sentence="a column is gone", facts={}))
    with pytest.raises(AirflowFailException, match="insert_only: a column is gone"):
        operator(tmp_path).execute(CONTEXT)


def test_an_error_of_the_job_that_passes_is_left_to_retries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, JobError(family="transient", sentence="the store timed out", facts={}))
    with pytest.raises(TransientError, match="the store timed out"):
        operator(tmp_path).execute(CONTEXT)


def test_a_job_that_died_without_a_word_says_its_last_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["py4j.protocol.Py4JNetworkError: Answer from Java side is empty", f"the key is {SECRET}"]
    lines += [
        "All masters are unresponsive! Giving up.",
        "26/11/26 06:12:00 INFO ShutdownHookManager: bye",
        "\tat a.B(C)",
    ]
    fake_spark_submit(tmp_path, "\n".join(["cat <<'END'", *lines, "END", "exit 137"]), monkeypatch)
    monkeypatch.setattr(use_cases, "read_job_error", lambda *_: None)
    with pytest.raises(
        TransientError,
        match=r"^spark-submit of insert_only ended with exit code 137 and left no .* it last said: All masters are",
    ) as raised:
        operator(tmp_path, storage_conn_id="lake").execute(CONTEXT)
    assert SECRET not in str(raised.value)


def test_a_hook_that_keeps_no_lines_is_no_error_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, None)
    with pytest.raises(TransientError, match="it last said: nothing"):
        operator(tmp_path).execute(CONTEXT)


def test_a_missing_spark_submit_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = shutil.which("java")
    assert java is not None
    monkeypatch.setenv("JAVA_HOME", os.environ.get("JAVA_HOME", str(Path(java).resolve().parents[1])))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AirflowFailException, match="spark-submit is found neither next to"):
        operator(tmp_path).execute(CONTEXT)


def test_a_machine_that_does_not_start_spark_submit_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def submit(self: SparkSubmitHook, application: str, *, env: dict[str, str]) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(SparkSubmitHook, "submit", submit)
    with pytest.raises(TransientError, match=r"^spark-submit of insert_only could not be started .*Cannot allocate"):
        operator(tmp_path).execute(CONTEXT)


def test_a_missing_java_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AirflowFailException, match="needs Java, but JAVA_HOME is not set and the path has none"):
        operator(tmp_path).execute(CONTEXT)


@pytest.mark.spark
def test_a_real_job_reports_why_it_failed(tmp_path: Path) -> None:
    task = operator(tmp_path)
    plan_uri = f"file://{tmp_path}/shuffle/7/plan.json"
    task.application_args = [plan_uri]
    context = {"ti": SimpleNamespace(xcom_pull=lambda task_ids: {"plan": {**PREPARED, "plan_uri": plan_uri}}[task_ids])}
    with pytest.raises(AirflowFailException, match=r"insert_only: there is no plan at file://.*/shuffle/7/plan\.json"):
        task.execute(context)
