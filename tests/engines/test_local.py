import threading

import pytest

from icefloe.batch.open.cores import local_cores
from icefloe.engines.local import LocalEngine


def test_results_come_in_the_order_of_the_numbers() -> None:
    assert LocalEngine(threads=3).map(lambda number: number * number, [3, 1, 2]) == [9, 1, 4]
    assert LocalEngine().map(lambda number: number, []) == []


def test_as_many_tasks_run_at_once_as_there_are_threads() -> None:
    # Who waits in vain for two others ends, so that the test can.
    meet = threading.Barrier(3, timeout=120)
    assert LocalEngine(threads=3).map(lambda _: meet.wait() >= 0, range(6)) == [True] * 6


def test_the_default_is_one_thread_per_core() -> None:
    lock = threading.Lock()
    names: set[str] = set()

    def note(_: int) -> None:
        with lock:
            names.add(threading.current_thread().name)

    LocalEngine().map(note, range(200))
    assert 1 <= len(names) <= local_cores()


def test_after_an_exception_no_further_task_is_begun() -> None:
    begun: list[int] = []

    def task(number: int) -> None:
        begun.append(number)
        if number == 2:
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        LocalEngine(threads=1).map(task, range(1000))
    assert begun == [0, 1, 2]


def test_it_shows_the_number_of_done_tasks() -> None:
    told: list[tuple[int, int]] = []
    LocalEngine(threads=2, report_progress=lambda done, total: told.append((done, total))).map(str, [5, 6, 7])
    assert sorted(told) == [(1, 3), (2, 3), (3, 3)]


def test_no_more_tasks_run_at_once_than_the_memory_of_the_process_holds() -> None:
    names: set[str] = set()
    LocalEngine(memory_bytes=1 << 62).map(lambda _: names.add(threading.current_thread().name), range(200))
    assert len(names) == 1
