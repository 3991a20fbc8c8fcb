import pickle
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import pytest

import icefloe
from icefloe.engines.spark import workers
from icefloe.engines.spark.workers import (
    CheckedTask,
    WorkerLibraries,
    found_libraries,
    refuse_other_libraries,
    refuse_workers_without_python,
)
from icefloe.errors import TerminalError, TransientError


def answer_of_a_worker(monkeypatch: pytest.MonkeyPatch, versions: Mapping[str, str | None]) -> object:
    """The answer of a worker with these versions, as the driver unpacks it."""
    packed = pickle.dumps(CheckedTask(lambda number: number * 2))
    with monkeypatch.context() as worker:
        worker.setattr(workers, "_version", lambda name: versions.get(name, version(name)))
        return pickle.loads(pickle.dumps(pickle.loads(packed)(21)))


def test_a_worker_of_the_same_environment_does_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer_of_a_worker(monkeypatch, {}) == 42


def test_a_worker_with_other_libraries_begins_no_task_and_every_difference_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = answer_of_a_worker(monkeypatch, {"pyarrow": "1.2.3", "lz4": None})
    assert isinstance(answer, WorkerLibraries)
    with pytest.raises(TerminalError) as refused:
        refuse_other_libraries(answer)
    here = version("pyarrow")
    assert f"the Spark workers have pyarrow 1.2.3 instead of {here}, no lz4: run them from" in str(refused.value)


def test_a_function_is_unpacked_only_where_its_libraries_are(monkeypatch: pytest.MonkeyPatch) -> None:
    task = CheckedTask(lambda number: number)
    monkeypatch.setattr(pickle, "loads", fail)
    with pytest.raises(AssertionError, match="unpacked"):
        task(1)
    monkeypatch.setattr(workers, "_version", lambda _: None)
    assert isinstance(task(1), WorkerLibraries)


def fail(_: bytes) -> None:
    raise AssertionError("unpacked")


@pytest.mark.parametrize(
    "said",
    [
        'java.io.IOException: Cannot run program "/opt/python": error=2, No such file or directory',
        "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11",
    ],
)
def test_workers_without_the_drivers_python_may_have_it_later(said: str) -> None:
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    with pytest.raises(TransientError) as refused:
        refuse_workers_without_python(said)
    assert str(refused.value) == (
        f"the Spark workers do not start Python {python}: set spark.pyspark.python to one that is there; {said}"
    )


def test_other_words_of_spark_say_nothing_of_python() -> None:
    refuse_workers_without_python("Job aborted due to stage failure: ExecutorLostFailure")


def test_a_library_that_the_driver_lacks_too_is_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_LIBRARIES", ("no-such-library",))
    assert found_libraries()["no-such-library"] is None
    assert CheckedTask(lambda number: number)(7) == 7


@pytest.mark.parametrize("module", ["engine", "workers"])
def test_a_worker_without_libraries_can_run_the_task_that_asks_for_them(module: str) -> None:
    # Without the site's packages, as a worker that unpacked another archive.
    subprocess.run(
        [sys.executable, "-S", "-c", f"import icefloe.engines.spark.{module}"],
        env={"PYTHONPATH": str(Path(icefloe.__file__).parents[1])},
        check=True,
    )
