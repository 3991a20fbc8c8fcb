import json
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import pytest

import icefloe
from icefloe.engines.spark import engine
from icefloe.engines.spark.engine import CheckedTask, WorkerLibraries, final_result

SCRIPT = Path(__file__).parent / "failing_tasks.py"


@pytest.mark.spark
def test_spark_tries_again_what_another_machine_may_not_meet(tmp_path: Path) -> None:
    environ = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, str(SCRIPT), str(tmp_path)]
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, text=True, check=True, timeout=240)
    host = socket.gethostname()
    assert json.loads(done.stdout) == {
        "fails once": [None, 2],
        "fails always": [["DamagedPartsError", f"no space; it ran on host {host}"], 4],
        "is met everywhere": [["CorruptMapOutputError", f"it is damaged; it ran on host {host}"], 1],
    }


def answer_of_a_worker(monkeypatch: pytest.MonkeyPatch, versions: Mapping[str, str | None]) -> object:
    """The answer of a worker with these versions, as the driver unpacks it."""
    packed = pickle.dumps(CheckedTask(lambda number: number * 2))
    with monkeypatch.context() as worker:
        worker.setattr(engine, "_version", lambda name: versions.get(name, version(name)))
        return pickle.loads(pickle.dumps(pickle.loads(packed)(21)))


def test_a_worker_of_the_same_environment_does_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer_of_a_worker(monkeypatch, {}) == 42


def test_a_worker_with_other_libraries_begins_no_task_and_every_difference_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = answer_of_a_worker(monkeypatch, {"pyarrow": "1.2.3", "lz4": None})
    assert isinstance(answer, WorkerLibraries)
    assert final_result(answer, most_tries=4) is answer
    here = version("pyarrow")
    assert f"the Spark workers have pyarrow 1.2.3 instead of {here}, no lz4: run them from" in str(answer.as_error())


def test_a_worker_without_libraries_can_run_the_task_that_asks_for_them() -> None:
    # Without the site's packages, as a worker that unpacked another archive.
    subprocess.run(
        [sys.executable, "-S", "-c", "import icefloe.engines.spark.engine"],
        env={"PYTHONPATH": str(Path(icefloe.__file__).parents[1])},
        check=True,
    )
