import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from icefloe.batch.context.batch_folder import MARKER
from icefloe.batch.phase_record import TaskOutcome
from icefloe.engines.spark.engine import SparkEngine
from icefloe.errors import TransientError
from icefloe.flow import Phase
from icefloe.shuffle.committed_output import CorruptMapOutputError
from icefloe.storage.local_folders import local_folders
from support.pipelines.workshop import InOrder, Workshop

pytestmark = pytest.mark.spark

VARYING = ["_commit_snapshot_id", "_commit_timestamp"]


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop.create(tmp_path / "workshop")


def test_results_come_in_the_order_of_the_numbers(engine: SparkEngine) -> None:
    assert engine.map(lambda number: 2 * number, [5, 3, 9, 1]) == [10, 6, 18, 2]
    assert engine.map(lambda number: number, []) == []


def test_spark_and_one_thread_deliver_the_same_changes_in_the_same_order(
    engine: SparkEngine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    delivered = []
    for each in (InOrder(), engine):
        workshop = Workshop.create(tmp_path_factory.mktemp("engine"))
        for start in (0, 50, 100):
            workshop.append(range(start, start + 50))
        initial = workshop.set(shuffle={"map_task_bytes": 1, "partitions": 4, "target_size_bytes": 1}).open()
        initial.run(Phase.INSERT_ONLY, each)
        initial.commit()
        workshop.update(range(40, 60), value=2.0)
        workshop.delete([3])
        batch = workshop.open()
        batch.run(Phase.SHUFFLE_WRITE, each)
        batch.coalesce()
        batch.run(Phase.SHUFFLE_READ, each)
        batch.commit()
        workshop.require_exact(batch.plan, workshop.changes(1))
        delivered.append([workshop.changes(number).drop_columns(VARYING) for number in (0, 1)])
    assert delivered[0] == delivered[1]


def test_workers_know_their_local_disks(engine: SparkEngine) -> None:
    def disks(_: int) -> int:
        return sum(folder is not None for folder in local_folders())

    assert engine.map(disks, [0]) == [1]


def test_an_error_of_ours_comes_back_from_a_worker_with_its_class_and_facts(engine: SparkEngine) -> None:
    def fail(number: int) -> TaskOutcome:
        return TaskOutcome(error=CorruptMapOutputError.of(number, 2, "its index file is gone"))

    [outcome] = engine.map(fail, [7])
    assert isinstance(outcome.error, CorruptMapOutputError)
    assert (outcome.error.map_id, outcome.error.generation, outcome.error.reason) == (7, 2, "its index file is gone")


def test_a_task_that_dies_is_one_sentence(engine: SparkEngine) -> None:
    def fail(number: int) -> int:
        raise RuntimeError(f"number {number} is cursed")

    with pytest.raises(TransientError, match=r"^Spark gave up on 1 tasks: .*number 7 is cursed") as failed:
        engine.map(fail, [7])
    assert "\n" not in str(failed.value)


def test_a_worker_that_is_killed_again_and_again_names_the_memory_to_set(engine: SparkEngine) -> None:
    def end(_: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(TransientError, match=r"^Spark gave up on 1 tasks: .*raise spark\.executor\.memoryOverhead"):
        engine.map(end, [7])


def test_a_batch_whose_python_worker_is_killed_in_each_phase_is_delivered_once(
    engine: SparkEngine, tmp_path: Path, workshop: Workshop
) -> None:
    for start in (0, 100):
        workshop.append(range(start, start + 100))
    workshop.set(shuffle={"map_task_bytes": 1, "partitions": 4, "target_size_bytes": 1}).deliver()
    workshop.update(range(90, 110), value=2.0)
    batch = workshop.open()
    for phase in (Phase.SHUFFLE_WRITE, Phase.SHUFFLE_READ):
        if phase is Phase.SHUFFLE_READ:
            batch.coalesce()
        dead = tmp_path / f"{phase}"
        batch.run(phase, KillingEngine(engine, dead))
        assert dead.exists()
    batch.commit()
    workshop.require_exact(batch.plan, workshop.changes(1))
    batch.clean_up()
    # The marker leads from the folder to its checkpoint, and stays for the next batch.
    assert {file.name for file in (workshop.folder / "storage/shuffle").rglob("*.*")} == {MARKER}


class KillingEngine:
    """Kills the Python worker of one task: its work is done, and Spark never hears of it."""

    def __init__(self, engine: SparkEngine, dead: Path) -> None:
        self._engine, self._dead = engine, dead

    def map(self, function: Callable[[int], Any], numbers: Sequence[int]) -> list[Any]:
        dead = str(self._dead)

        def run_and_die_once(number: int) -> Any:
            import os
            import signal
            from contextlib import suppress

            result = function(number)
            with suppress(FileExistsError):
                os.mkdir(dead)  # noqa: PTH102 - a worker pickles no more than this
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return self._engine.map(run_and_die_once, numbers)
