"""The local engine: the task functions in the threads of one process, without a JVM."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any

__all__ = ["LocalEngine", "local_cores"]


class LocalEngine:
    """Runs tasks in threads; Arrow and NumPy release the interpreter for most of the work.

    Args:
        threads: how many tasks run at once; None: one per core.
    """

    def __init__(self, *, threads: int | None = None) -> None:
        self._threads = threads or local_cores()

    def map(self, function: Callable[[int], Any], numbers: Sequence[int]) -> list[Any]:
        """The results, in the order of ``numbers``; after a failure no further task is begun."""
        with ThreadPoolExecutor(self._threads, thread_name_prefix="icefloe") as pool:
            futures = [pool.submit(function, number) for number in numbers]
            done, rest = wait(futures, return_when=FIRST_EXCEPTION)
            for future in rest:
                future.cancel()
            for future in done:
                future.result()
            return [future.result() for future in futures]


def local_cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
