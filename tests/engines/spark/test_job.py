import sys
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from icefloe.batch.context.batch_folder import BatchFileMissingError
from icefloe.batch.context.references import BatchReference
from icefloe.batch.context.task_attempt import JobError
from icefloe.batch.credentials import Credentials
from icefloe.batch.run_settings import RunSettings
from icefloe.engines.spark.application import ATTEMPT_VARIABLE
from icefloe.engines.spark.job import run_job
from icefloe.errors import TransientError
from icefloe.flow import Phase


def test_anything_but_one_plan_url_is_a_wrong_call(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_job(Phase.SHUFFLE_WRITE, []) == 2
    assert capsys.readouterr().err == "shuffle_write takes one argument, the plan's URI; found 0\n"
    assert run_job(Phase.SHUFFLE_READ, ["file:///tmp/other.json"]) == 2
    assert "shuffle_read: expected the URL of a plan.json, found 'file:///tmp/other.json'" in capsys.readouterr().err


def test_an_error_is_stored_next_to_the_plan_for_the_starter_of_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ATTEMPT_VARIABLE, "try-3")
    url = "memory://spark-jobs/0/plan.json"
    settings = RunSettings(checkpoint_url="memory://spark-jobs/checkpoint")
    reference = BatchReference(plan_url=url, credentials=Credentials(), settings=settings)
    for name, value in reference.to_environment().items():
        monkeypatch.setenv(name, value)
    assert run_job(Phase.SHUFFLE_WRITE, [url]) == BatchFileMissingError.exit_code == 65
    left = JobError.load(reference, "shuffle_write", "try-3")
    assert left is not None
    assert left.family == "terminal"
    assert "there is no plan at memory://spark-jobs/0/plan.json" in left.sentence
    error = left.as_error()
    assert isinstance(error, BatchFileMissingError)
    assert error.url == "memory://spark-jobs/0"


@pytest.mark.parametrize(
    ("master", "python", "checked"),
    [
        ("local[2]", sys.executable, False),
        ("local[2]", "/opt/other/python", True),
        ("local-cluster[2,1,1024]", sys.executable, True),
        ("spark://host:7077", sys.executable, True),
    ],
)
def test_workers_with_the_drivers_own_interpreter_do_not_look_for_its_libraries(
    monkeypatch: pytest.MonkeyPatch, master: str, python: str, *, checked: bool
) -> None:
    context = SimpleNamespace(
        master=master, pythonExec=python, applicationId="app-1", uiWebUrl=None, stop=lambda: None
    )  # fmt: skip
    found: list[bool] = []

    def engine(_: object, *, checks_libraries: bool) -> None:
        found.append(checks_libraries)

    monkeypatch.setattr("pyspark.SparkContext.getOrCreate", lambda _: context)
    plan = SimpleNamespace(pipeline="events")
    monkeypatch.setattr(BatchReference, "open", lambda _: SimpleNamespace(plan=plan))
    monkeypatch.setattr("icefloe.engines.spark.job.SparkEngine", engine)
    monkeypatch.setattr("icefloe.engines.spark.job.run_phase", lambda *_, **__: None)
    settings = RunSettings(checkpoint_url="memory://spark-jobs/checkpoint")
    url = "memory://spark-jobs/0/plan.json"
    reference = BatchReference(plan_url=url, credentials=Credentials(), settings=settings)
    for name, value in reference.to_environment().items():
        monkeypatch.setenv(name, value)
    assert run_job(Phase.SHUFFLE_READ, [url]) == 0
    assert found == [checked]


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch) -> BatchReference:
    """A batch whose application runs, and which this process was given."""
    settings = RunSettings(checkpoint_url="memory://dead-jvm/checkpoint")
    url = "memory://dead-jvm/0/plan.json"
    reference = BatchReference(plan_url=url, credentials=Credentials(), settings=settings)
    for name, value in {**reference.to_environment(), ATTEMPT_VARIABLE: "try-1"}.items():
        monkeypatch.setenv(name, value)
    plan = SimpleNamespace(pipeline="events")
    monkeypatch.setattr(BatchReference, "open", lambda _: SimpleNamespace(plan=plan))
    return reference


def left_by(reference: BatchReference) -> tuple[str, str]:
    """The family and the sentence of the error document that a job leaves."""
    assert run_job(Phase.SHUFFLE_READ, [reference.plan_url]) == 75
    left = JobError.load(reference, "shuffle_read", "try-1")
    assert left is not None
    return left.family, left.sentence


def test_a_spark_that_does_not_start_leaves_its_words(
    monkeypatch: pytest.MonkeyPatch, reference: BatchReference
) -> None:
    def fail(_: object) -> None:
        raise Py4JError(
            "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
            ": java.lang.IllegalArgumentException: All masters are unresponsive\n\tat org.apache.spark.X(Y.scala:1)\n"
        )

    monkeypatch.setattr("pyspark.SparkContext.getOrCreate", fail)
    family, sentence = left_by(reference)
    assert family == "transient"
    assert sentence.startswith(
        "Spark did not start for shuffle_read: java.lang.IllegalArgumentException: All masters are unresponsive; see"
    )


@pytest.mark.parametrize(
    "error", [Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError(111, "Connection refused")]
)
def test_a_jvm_that_dies_in_the_middle_is_said_to_be_gone(
    monkeypatch: pytest.MonkeyPatch, reference: BatchReference, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    context = SimpleNamespace(
        master="local[2]", pythonExec=sys.executable, applicationId="app-1", uiWebUrl=None, stop=fail
    )
    monkeypatch.setattr("pyspark.SparkContext.getOrCreate", lambda _: context)
    monkeypatch.setattr("icefloe.engines.spark.job.run_phase", fail)
    family, sentence = left_by(reference)
    assert family == "transient"
    assert sentence.startswith("the JVM of shuffle_read no longer answers (")
    assert "spark.driver.memory" in sentence


def test_an_error_is_not_lost_because_the_jvm_is_gone_when_it_is_stopped(
    monkeypatch: pytest.MonkeyPatch, reference: BatchReference
) -> None:
    def stop() -> None:
        raise Py4JNetworkError("Answer from Java side is empty")

    def fail(*_: object, **__: object) -> None:
        raise TransientError("a store was away")

    context = SimpleNamespace(
        master="local[2]", pythonExec=sys.executable, applicationId="app-1", uiWebUrl=None, stop=stop
    )
    monkeypatch.setattr("pyspark.SparkContext.getOrCreate", lambda _: context)
    monkeypatch.setattr("icefloe.engines.spark.job.run_phase", fail)
    assert left_by(reference) == ("transient", "a store was away")
