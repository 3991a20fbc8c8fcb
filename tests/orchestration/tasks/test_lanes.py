import asyncio
from contextvars import ContextVar
from threading import Event, Thread, current_thread

import pytest

from icefloe import patience
from icefloe.patience import Lanes


def test_a_full_lane_holds_up_no_other() -> None:
    release = Event()
    lanes = Lanes(threads=2, name="test")
    stuck = [lanes.submit("dead", release.wait) for _ in range(5)]
    assert lanes.submit("healthy", lambda: 7).result(timeout=30) == 7
    assert not any(future.done() for future in stuck)
    release.set()
    assert all(future.result(timeout=30) for future in stuck)


def test_a_call_sees_the_context_of_who_submits_it() -> None:
    variable: ContextVar[int] = ContextVar("variable")
    variable.set(7)
    assert Lanes(threads=1, name="test").submit("lane", variable.get).result(timeout=30) == 7


def test_who_is_cancelled_takes_back_a_call_that_has_not_begun() -> None:
    release, begun = Event(), Event()
    lanes = Lanes(threads=1, name="test")

    async def wait() -> None:
        first = asyncio.ensure_future(lanes.run("lane", release.wait))
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await lanes.run("lane", begun.set)
        release.set()
        assert await first

    asyncio.run(wait())
    assert lanes.submit("lane", lambda: 7).result(timeout=30) == 7
    assert not begun.is_set()


def test_a_thread_ends_when_its_lane_has_no_more_calls() -> None:
    release = Event()
    lanes = Lanes(threads=1, name="test")

    def wait() -> Thread:
        release.wait(30)
        return current_thread()

    first, second = lanes.submit("lane", wait), lanes.submit("lane", wait)
    release.set()
    assert first.result(timeout=30) is second.result(timeout=30)
    first.result().join(30)
    assert lanes.submit("lane", wait).result(timeout=30) is not first.result()


def test_a_lane_whose_thread_gets_no_memory_says_so_and_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lanes, refused = Lanes(threads=1, name="test"), Event()
    with monkeypatch.context() as starved:
        starved.setattr(patience, "_BIRTH_SECONDS", 1)
        starved.setattr(Thread, "_bootstrap", lambda _: None)
        with pytest.raises(MemoryError, match="ended before it began"):
            lanes.submit("lane", refused.set)
    assert lanes.submit("lane", lambda: 7).result(timeout=30) == 7
    assert not refused.is_set()


def test_a_lane_whose_thread_died_gets_another(monkeypatch: pytest.MonkeyPatch) -> None:
    died: list[Thread] = []

    def die(thread: Thread) -> None:
        died.append(thread)

    lanes = Lanes(threads=1, name="test")
    with monkeypatch.context() as starved:
        starved.setattr(patience.BegunThread, "run", die)
        lost = lanes.submit("lane", lambda: 6)
    died[0].join(30)
    assert lanes.submit("lane", lambda: 7).result(timeout=30) == 7
    assert lost.result(timeout=30) == 6
