import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from icefloe.batch.context.batch_folder import BatchFileMissingError
from icefloe.batch.context.references import BatchReference
from icefloe.batch.context.task_attempt import FailedAttempt
from icefloe.batch.run_settings import Credentials
from icefloe.engines.spark.job import ATTEMPT_VARIABLE, end_with_submitter, run_job
from icefloe.errors import TransientError
from icefloe.flow import Phase
from support.pipelines.pipeline_files import settings_at


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch) -> BatchReference:
    """A batch that this process was given."""
    url, settings = "memory://spark-jobs/0/plan.json", settings_at("memory://spark-jobs/checkpoint")
    reference = BatchReference(plan_url=url, credentials=Credentials(), settings=settings)
    for name, value in {**reference.to_environment(), ATTEMPT_VARIABLE: "try-1"}.items():
        monkeypatch.setenv(name, value)
    return reference


def test_an_error_is_stored_next_to_the_plan_for_the_starter_of_the_job(reference: BatchReference) -> None:
    assert run_job(Phase.SHUFFLE_WRITE, [reference.plan_url]) == BatchFileMissingError.exit_code == 65
    left = FailedAttempt.load(reference, "shuffle_write", "try-1")
    assert left is not None
    assert left.family == "terminal"
    assert "there is no plan at memory://spark-jobs/0/plan.json" in left.sentence
    assert isinstance(left.as_error(), BatchFileMissingError)


@pytest.fixture
def planned(reference: BatchReference, monkeypatch: pytest.MonkeyPatch) -> BatchReference:
    """The same with a plan, so that its application begins."""
    plan = SimpleNamespace(pipeline="events")
    monkeypatch.setattr(BatchReference, "open", lambda _: SimpleNamespace(plan=plan))
    return reference


def run_phase_raising(monkeypatch: pytest.MonkeyPatch, error: Exception, at_stop: Exception) -> None:
    """Lets Spark start, the phase fail, and Spark's end fail too."""

    def fail(*_: object, **__: object) -> None:
        raise error

    def stop() -> None:
        raise at_stop

    context = SimpleNamespace(
        master="local[2]", pythonExec=sys.executable, applicationId="app-1", uiWebUrl=None, stop=stop
    )
    monkeypatch.setattr("pyspark.SparkContext.getOrCreate", lambda: context)
    monkeypatch.setattr("icefloe.engines.spark.job.run_phase", fail)


def left_by(reference: BatchReference) -> tuple[str, str]:
    """The family and the sentence of the error document that a job leaves."""
    assert run_job(Phase.SHUFFLE_READ, [reference.plan_url]) == 75
    left = FailedAttempt.load(reference, "shuffle_read", "try-1")
    assert left is not None
    return left.family, left.sentence


def test_a_spark_that_does_not_start_leaves_its_words(monkeypatch: pytest.MonkeyPatch, planned: BatchReference) -> None:
    def fail() -> None:
        raise Py4JError(
            "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
            ": java.lang.IllegalArgumentException: All masters are unresponsive\n\tat org.apache.spark.X(Y.scala:1)\n"
        )

    monkeypatch.setattr("pyspark.SparkContext.getOrCreate", fail)
    family, sentence = left_by(planned)
    assert family == "transient"
    assert sentence.startswith(
        "Spark did not start for shuffle_read: java.lang.IllegalArgumentException: All masters are unresponsive; see"
    )


@pytest.mark.parametrize(
    "error", [Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError(111, "Connection refused")]
)
def test_a_jvm_that_dies_in_the_middle_is_said_to_be_gone(
    monkeypatch: pytest.MonkeyPatch, planned: BatchReference, error: Exception
) -> None:
    run_phase_raising(monkeypatch, error, at_stop=error)
    family, sentence = left_by(planned)
    assert family == "transient"
    assert sentence.startswith("the JVM of shuffle_read no longer answers (")
    assert "spark.driver.memory" in sentence


def test_an_error_is_not_lost_because_the_jvm_is_gone_when_it_is_stopped(
    monkeypatch: pytest.MonkeyPatch, planned: BatchReference
) -> None:
    at_stop = Py4JNetworkError("Answer from Java side is empty")
    run_phase_raising(monkeypatch, TransientError("a store was away"), at_stop=at_stop)
    assert left_by(planned) == ("transient", "a store was away")


ROOT = Path(__file__).parents[3]
DRIVER = """
import os, sys, threading
from icefloe.engines.spark.job import end_with_submitter
end_with_submitter(os.environ)
sys.stdout.write("watching\\n")
sys.stdout.flush()
threading.Event().wait()
"""


def test_a_driver_ends_when_the_process_that_submitted_it_was_killed() -> None:
    with ExitStack() as started:
        submitter = started.enter_context(subprocess.Popen(["sleep", "600"]))
        started.callback(submitter.kill)
        environ = {**os.environ, "PYTHONPATH": str(ROOT / "plugins"), "ICEFLOE_SUBMITTER_PID": str(submitter.pid)}
        command = [sys.executable, "-c", DRIVER]
        driver = started.enter_context(subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True))
        started.callback(driver.kill)
        assert driver.stdout is not None
        assert driver.stdout.readline() == "watching\n"
        assert driver.poll() is None
        submitter.kill()
        submitter.wait()
        assert driver.wait(timeout=60) == 75


def test_a_driver_whose_submitter_was_killed_before_it_began_ends_at_once() -> None:
    ended = SimpleQueue[int]()
    end_with_submitter({}, end=ended.put)
    end_with_submitter({"ICEFLOE_SUBMITTER_PID": str(pid_that_is_gone())}, end=ended.put)
    assert ended.get(timeout=60) == 75
    assert ended.empty()


def pid_that_is_gone() -> int:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    return gone.pid
