import pickle
import socket
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import TaskContext

import icefloe
from icefloe.batch.phase_record import TaskOutcome
from icefloe.engines.spark import engine
from icefloe.engines.spark.engine import CheckedTask, final_result
from icefloe.errors import IcefloeError, TerminalError
from icefloe.shuffle.committed_output import CorruptMapOutputError
from icefloe.sinks.manifest import DamagedPartsError
from icefloe.storage.requests import RequestTotals

NO_SPACE = DamagedPartsError("no space", url="file:///x", numbers=(0,))
DAMAGED = CorruptMapOutputError("it is damaged", map_id=1, generation=0, reason="it is damaged")


@pytest.mark.parametrize(
    ("error", "tries"), [(NO_SPACE, [True, True, True, False]), (DAMAGED, [False]), (TerminalError("no"), [False])]
)
def test_a_task_is_tried_again_elsewhere_if_another_machine_may_not_meet_its_error_and_the_last_try_names_the_host(
    monkeypatch: pytest.MonkeyPatch, error: IcefloeError, tries: list[bool]
) -> None:
    outcome = TaskOutcome(error=error, requests=RequestTotals())
    for attempt, is_tried_again in enumerate(tries):
        monkeypatch.setattr(TaskContext, "get", lambda attempt=attempt: SimpleNamespace(attemptNumber=lambda: attempt))
        if is_tried_again:
            with pytest.raises(type(error), match=r"^no space$"):
                final_result(outcome, most_tries=4)
        else:
            found = final_result(outcome, most_tries=4).error
            assert str(found) == f"{error.sentence}; it ran on host {socket.gethostname()}"
            assert type(found) is type(error)
    assert final_result(outcome, most_tries=1) is outcome


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
    assert isinstance(answer, TerminalError)
    assert final_result(answer, most_tries=4) is answer
    here = version("pyarrow")
    assert f"the Spark workers have pyarrow 1.2.3 instead of {here}, no lz4: run them from" in str(answer)


def test_a_worker_without_libraries_can_run_the_task_that_asks_for_them() -> None:
    # Without the site's packages, as a worker that unpacked another archive.
    subprocess.run(
        [sys.executable, "-S", "-c", "import icefloe.engines.spark.engine"],
        env={"PYTHONPATH": str(Path(icefloe.__file__).parents[1])},
        check=True,
    )
