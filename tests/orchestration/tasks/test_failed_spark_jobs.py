"""A Spark job that fails, dies or cannot be started ends its task with one sentence; no line of it says a secret."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from icefloe.batch.context.task_attempt import FailedAttempt
from icefloe.errors import TransientError
from icefloe.orchestration.tasks import calls as use_cases
from icefloe.orchestration.tasks.spark_phase_operator import RedactedLog
from orchestration.tasks.spark_phase_tasks import CONTEXT, PREPARED, SECRET, fake_spark_submit, operator

pytestmark = pytest.mark.usefixtures("connections")


def fail_with(monkeypatch: pytest.MonkeyPatch, error: FailedAttempt | None) -> None:
    def submit(self: SparkSubmitHook, application: str, *, env: dict[str, str]) -> None:
        raise AirflowException("exit code 1")

    monkeypatch.setattr(SparkSubmitHook, "submit", submit)
    monkeypatch.setattr(use_cases, "read_job_error", lambda *_: error)


@pytest.mark.parametrize(
    ("error", "raised", "sentence"),
    [
        (
            FailedAttempt(family="terminal", sentence="a column is gone", facts={}),
            AirflowFailException,
            "insert_only: a col",
        ),
        (FailedAttempt(family="transient", sentence="it timed out", facts={}), TransientError, "it timed out"),
        (None, TransientError, "it last said: nothing"),
    ],
)
def test_the_error_of_a_job_fails_its_task_or_is_left_to_retries(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: FailedAttempt | None,
    raised: type[Exception],
    sentence: str,
) -> None:
    fail_with(monkeypatch, error)
    with pytest.raises(raised, match=sentence):
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


def test_a_missing_program_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.spark
def test_a_real_job_reports_why_it_failed(tmp_path: Path) -> None:
    task = operator(tmp_path)
    plan_uri = f"file://{tmp_path}/shuffle/7/plan.json"
    task.application_args = [plan_uri]
    context = {"ti": SimpleNamespace(xcom_pull=lambda task_ids: {"plan": {**PREPARED, "plan_uri": plan_uri}}[task_ids])}
    with pytest.raises(AirflowFailException, match=r"insert_only: there is no plan at file://.*/shuffle/7/plan\.json"):
        task.execute(context)


class Lines:
    """The log of a hook, as Airflow gives it to one."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def info(self, event: object, *arguments: object, **_: object) -> None:
        self.written.append(str(event) % arguments if arguments else str(event))

    debug = warning = error = exception = info


def test_secrets_that_a_job_prints_are_not_in_the_tasks_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = 'echo "options $ICEFLOE_CREDENTIALS"\necho "100% s3.session-token=vended-by-the-catalog"'
    fake_spark_submit(tmp_path, script, monkeypatch)
    log = Lines()
    monkeypatch.setattr(SparkSubmitHook, "_log", log)
    masked: list[object] = []
    monkeypatch.setattr("icefloe.orchestration.connections.mask_secret", masked.append)
    operator(tmp_path, storage_conn_id="lake").execute(CONTEXT)
    text = "\n".join(log.written)
    assert "options " in text
    assert "100% s3.session-token=***" in text
    assert SECRET not in text
    assert "vended-by-the-catalog" not in text
    assert SECRET in masked


def test_a_line_without_arguments_may_have_any_percent_sign() -> None:
    import structlog
    from structlog.testing import LogCapture

    captured = LogCapture()
    kind = structlog.make_filtering_bound_logger(0)
    log = RedactedLog(structlog.wrap_logger(structlog.PrintLogger(), processors=[captured], wrapper_class=kind))
    log.info("5%s done")
    log.info("driver %s", "token=abcdefgh")
    log.info("odd %d", "x")
    log.info("reading a\x1b[2K\nicefloe: verified\tb")
    told = "reading a\\x1b[2K\\nicefloe: verified\tb"
    assert [each["event"] for each in captured.entries] == ["5%s done", "driver token=***", "odd %d ('x',)", told]
