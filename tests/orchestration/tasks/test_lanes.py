import asyncio
from contextvars import ContextVar
from threading import Event

import pytest

from icefloe.orchestration.tasks.lanes import Lanes


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
