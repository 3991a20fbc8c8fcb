import threading
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from icefloe.engines.local import LocalEngine
from icefloe.patience import answer_within
from icefloe.storage.requests import map_parallel


@pytest.mark.parametrize("started", [0, 1])
@pytest.mark.parametrize(
    "work",
    [
        lambda: map_parallel(str, range(5)),
        lambda: LocalEngine(threads=4).map(str, range(5)),
        lambda: [answer_within(60, lambda: 1) for _ in range(2)],
    ],
    ids=["requests", "tasks", "catalog"],
)
def test_a_thread_that_the_system_refuses_is_a_lack_of_memory(
    work: Callable[[], Any], started: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, numbers = threading.Thread.start, count()

    def refused(thread: threading.Thread) -> None:
        if next(numbers) >= started:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refused)
    with pytest.raises(MemoryError, match="the system lets this process start no further thread"):
        work()


def test_an_error_of_a_call_stays_what_it_is_and_calls_that_have_not_begun_are_not_made() -> None:
    made, never = [], threading.Event()

    def fail(number: int) -> None:
        made.append(number)
        # Later calls take long enough for the caller to see the first error before all of them are made.
        never.wait(0.05 if number else 0)
        raise RuntimeError(f"call {number}")

    with pytest.raises(RuntimeError, match="call 0"):
        map_parallel(fail, range(1_000), at_once=2)
    assert len(made) < 1_000
