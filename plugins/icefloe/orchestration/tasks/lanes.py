"""Threads for calls that may take long: a few for each catalog or store, so that a dead one holds up no other."""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from threading import Lock, Thread, current_thread
from typing import TypeVar

from icefloe.threads import BegunThread

__all__ = ["Lanes"]

Answer = TypeVar("Answer")


class Lanes:
    """Runs calls in lanes. Each lane has a few threads; further calls of the lane wait for a thread.

    A thread is started when a call needs it, and ends when its lane has no more calls. So there may be many lanes, if
    few are ever full.

    Args:
        threads: number of threads of each lane.
        name: of the threads, for people who inspect the process.
    """

    def __init__(self, *, threads: int, name: str) -> None:
        self._threads = threads
        self._name = name
        self._lanes: dict[str, _Lane] = {}
        self._lock = Lock()

    def submit(self, lane: str, call: Callable[[], Answer]) -> Future[Answer]:
        """Runs a call in its lane.

        Args:
            lane: the catalog or store that the call asks.
            call: may take long.

        Raises:
            MemoryError: the system refused the only thread of the lane, or memory for it.
        """
        with self._lock:
            if lane not in self._lanes:
                self._lanes[lane] = _Lane(threads=self._threads, name=self._name)
        future: Future[Answer] = Future()
        # In the context of the caller: by it Airflow's triggerer tells to which trigger a line of its log belongs.
        self._lanes[lane].add(partial(_settle, future, partial(copy_context().run, call)))
        return future

    async def run(self, lane: str, call: Callable[[], Answer]) -> Answer:
        """Runs a call in its lane and waits for it. If the caller is cancelled, a call that has not begun is too.

        Raises:
            MemoryError: see `submit`.
        """
        return await asyncio.wrap_future(self.submit(lane, call))


class _Lane:
    """The calls of one lane that wait, and the threads that make them."""

    def __init__(self, *, threads: int, name: str) -> None:
        self._most = threads
        self._name = name
        self._waiting: deque[Callable[[], None]] = deque()
        self._begun: set[Thread] = set()
        self._lock = Lock()

    def add(self, call: Callable[[], None]) -> None:
        """Lets a thread make a call that raises nothing; see `Lanes.submit`."""
        with self._lock:
            self._waiting.append(call)
            # A thread that got no memory in the middle of its work is gone.
            self._begun = {thread for thread in self._begun if thread.is_alive()}
            if len(self._begun) < self._most:
                self._begin()

    def _begin(self) -> None:
        thread = BegunThread(target=self._work, name=self._name)
        try:
            thread.start()
        except MemoryError:
            if not self._begun:
                self._waiting.pop()
                raise
            # The threads that are there make the call, later.
        else:
            self._begun.add(thread)

    def _work(self) -> None:
        while (call := self._next()) is not None:
            call()

    def _next(self) -> Callable[[], None] | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._begun.discard(current_thread())
            return None


def _settle(future: Future[Answer], call: Callable[[], Answer]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(call())
    except BaseException as error:  # noqa: BLE001 - handed to whoever waits
        future.set_exception(error)
