"""Threads for calls that may take long: a few for each catalog or store, so that a dead one holds up no other."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from threading import Lock
from typing import TypeVar

__all__ = ["Lanes"]

Answer = TypeVar("Answer")


class Lanes:
    """Runs calls in lanes. Each lane has a few threads; further calls of the lane wait for a thread.

    A thread is started when it is first needed. So there may be many lanes, if few are ever full.

    Args:
        threads: number of threads of each lane.
        name: of the threads, for people who inspect the process.
    """

    def __init__(self, *, threads: int, name: str) -> None:
        self._threads = threads
        self._name = name
        self._pools: dict[str, ThreadPoolExecutor] = {}
        self._lock = Lock()

    def submit(self, lane: str, call: Callable[[], Answer]) -> Future[Answer]:
        """Runs a call in its lane.

        Args:
            lane: the catalog or store that the call asks.
            call: may take long.
        """
        # In the context of the caller: by it Airflow's triggerer tells to which trigger a line of its log belongs.
        return self._pool(lane).submit(copy_context().run, call)

    async def run(self, lane: str, call: Callable[[], Answer]) -> Answer:
        """Runs a call in its lane and waits for it. If the caller is cancelled, a call that has not begun is too."""
        return await asyncio.wrap_future(self.submit(lane, call))

    def _pool(self, lane: str) -> ThreadPoolExecutor:
        with self._lock:
            if lane not in self._pools:
                self._pools[lane] = ThreadPoolExecutor(self._threads, thread_name_prefix=self._name)
            return self._pools[lane]
