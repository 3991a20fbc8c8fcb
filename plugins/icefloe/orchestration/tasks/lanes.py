"""Threads for calls that may take long: some for each catalog or store, so that one that is dead holds up no other."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from threading import Lock
from typing import TypeVar

__all__ = ["Lanes"]

Answer = TypeVar("Answer")


class Lanes:
    """Runs calls, as many at once in each lane as it has threads; further calls of the lane wait for a thread.

    Threads are started when they are needed first. So there may be many lanes, of which few are ever full.

    Args:
        threads: of each lane.
        name: of the threads, for who looks at a process.
    """

    def __init__(self, *, threads: int, name: str) -> None:
        self._threads = threads
        self._name = name
        self._pools: dict[str, ThreadPoolExecutor] = {}
        self._lock = Lock()

    def submit(self, lane: str, call: Callable[[], Answer]) -> Future[Answer]:
        """Runs a call in its lane.

        Args:
            lane: which catalog or store the call asks.
            call: may take long.
        """
        return self._pool(lane).submit(copy_context().run, call)

    async def run(self, lane: str, call: Callable[[], Answer]) -> Answer:
        """What the call returns or raises; a caller that is cancelled takes back a call that has not begun."""
        return await asyncio.wrap_future(self.submit(lane, call))

    def _pool(self, lane: str) -> ThreadPoolExecutor:
        with self._lock:
            if lane not in self._pools:
                self._pools[lane] = ThreadPoolExecutor(self._threads, thread_name_prefix=self._name)
            return self._pools[lane]
