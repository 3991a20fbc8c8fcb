import threading
from collections.abc import Callable
from itertools import count

import pytest

from icefloe.engines.local import LocalEngine
from icefloe.patience import answer_within
from icefloe.storage.requests import map_parallel


def test_as_many_tasks_run_at_once_as_there_are_threads() -> None:
    # Who waits in vain for two others ends, so that the test can.
    meet = threading.Barrier(3, timeout=120)
    assert LocalEngine(threads=3).map(lambda _: meet.wait() >= 0, range(6)) == [True] * 6


def test_after_an_exception_no_further_task_is_begun() -> None:
    begun: list[int] = []

    def task(number: int) -> None:
        begun.append(number)
        if number == 2:
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        LocalEngine(threads=1).map(task, range(1000))
    assert begun == [0, 1, 2]


def test_no_more_tasks_run_at_once_than_the_memory_of_the_process_holds() -> None:
    names: set[str] = set()
    LocalEngine(memory_bytes=1 << 62).map(lambda _: names.add(threading.current_thread().name), range(200))
    assert len(names) == 1


@pytest.mark.parametrize("started", [0, 1])
@pytest.mark.parametrize(
    "work",
    [lambda: map_parallel(str, range(5)), lambda: LocalEngine(threads=4).map(str, range(5))],
    ids=["requests", "tasks"],
)
def test_work_goes_on_in_the_threads_that_the_system_grants(
    work: Callable[[], list[str]], started: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_threads(monkeypatch, after=started)
    if started:
        assert work() == ["0", "1", "2", "3", "4"]
        return
    with pytest.raises(MemoryError, match="the system lets this process start no further thread"):
        work()


def test_a_thread_that_the_system_refuses_a_catalog_is_a_lack_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_threads(monkeypatch, after=1)
    assert answer_within(60, lambda: 1) == 1
    with pytest.raises(MemoryError, match="the system lets this process start no further thread"):
        answer_within(60, lambda: 1)


def refuse_threads(monkeypatch: pytest.MonkeyPatch, *, after: int) -> None:
    start, numbers = threading.Thread.start, count()

    def refused(thread: threading.Thread) -> None:
        if next(numbers) >= after:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refused)
