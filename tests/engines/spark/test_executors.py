import json
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import icefloe
from icefloe.engines.spark import engine, workers
from icefloe.engines.spark.master import SparkMaster
from icefloe.engines.spark.spark_conf import exclusion_settings
from icefloe.engines.spark.workers import CheckedTask, Executor, PlacedResult, WorkerLibraries

SCRIPT = Path(__file__).parent / "bad_executors.py"
CLUSTER = SparkMaster(url="spark://master:7077", is_local=False)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Any]]]:
    """The outcomes of tasks if one of two executors is bad, and if both are."""
    environ = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, str(SCRIPT), str(tmp_path_factory.mktemp("bad"))]
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, text=True, check=True, timeout=240)
    found: list[list[dict[str, Any]]] = json.loads(done.stdout)
    return found


@pytest.mark.spark
def test_tasks_that_fail_on_one_bad_executor_are_run_by_another(outcomes: list[list[dict[str, Any]]]) -> None:
    found, _ = outcomes
    assert [each["error"] for each in found] == [None] * 8
    assert max(each["tries"] for each in found) == 2, "once on the bad executor, and never again"
    assert max(each["refused"] for each in found) == 1, "Spark keeps the executor away as soon as it refused one"


@pytest.mark.spark
def test_an_error_that_all_executors_have_keeps_its_class_and_names_the_host(
    outcomes: list[list[dict[str, Any]]],
) -> None:
    _, found = outcomes
    host = socket.gethostname()
    assert [each["error"] for each in found] == [
        ["DamagedPartsError", f"no space for task {number}; it ran on host {host}"] for number in range(8)
    ]


def test_executors_are_excluded_on_clusters_unless_somebody_chose_otherwise() -> None:
    def settings(configured: Mapping[str, str], url: str = CLUSTER.url) -> Mapping[str, str]:
        return exclusion_settings(configured, SparkMaster(url=url, is_local=False))

    ours = {"spark.excludeOnFailure.taskAndStage.enabled": "true", "spark.icefloe.excludesExecutors": "true"}
    assert settings({}) == settings({}, "yarn") == settings({"spark.task.maxFailures": "8"}) == ours
    assert settings({}, "local[2]") == {}
    assert settings({"spark.excludeOnFailure.enabled": "false"}) == {}
    # Spark ends at once if a task has no tries left for another machine.
    assert settings({"spark.task.maxFailures": "2"}) == {}


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
    placed = PlacedResult(Executor("bare", "/local"), answer)
    assert placed.named() == placed
    here = version("pyarrow")
    assert f"the Spark workers have pyarrow 1.2.3 instead of {here}, no lz4: run them from" in str(answer.as_error())


@pytest.mark.parametrize(
    "said",
    [
        'java.io.IOException: Cannot run program "/opt/python": error=2, No such file or directory',
        "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11",
    ],
)
def test_workers_without_the_drivers_python_may_have_it_later(said: str) -> None:
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    expected = f"the Spark workers do not start Python {python}: set spark.pyspark.python to one that is there; {said}"
    assert engine._sentence(said, 8) == expected


@pytest.mark.parametrize("module", ["engine", "workers"])
def test_a_worker_without_libraries_can_run_the_task_that_asks_for_them(module: str) -> None:
    # Without the site's packages, as a worker that unpacked another archive.
    subprocess.run(
        [sys.executable, "-S", "-c", f"import icefloe.engines.spark.{module}"],
        env={"PYTHONPATH": str(Path(icefloe.__file__).parents[1])},
        check=True,
    )
