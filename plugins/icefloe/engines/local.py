"""The local engine: the task functions in the threads of one process, without a JVM."""

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any

from icefloe.batch.cores import local_cores

__all__ = ["LocalEngine"]


class LocalEngine:
    """Runs tasks in threads; Arrow and NumPy release the interpreter for most of the work.

    Args:
        threads: how many tasks run at once; None: one per core.
    """

    def __init__(self, *, threads: int | None = None) -> None:
        self._threads = threads or local_cores()

    def map(self, function: Callable[[int], Any], numbers: Sequence[int]) -> list[Any]:
        """The results, in the order of ``numbers``; after an exception no further task is begun, and it is raised."""
        with ThreadPoolExecutor(self._threads, thread_name_prefix="icefloe") as pool:
            futures = [pool.submit(function, number) for number in numbers]
            _, rest = wait(futures, return_when=FIRST_EXCEPTION)
            for future in rest:
                future.cancel()
            wait(futures)
            failed = [future for future in futures if not future.cancelled() and future.exception() is not None]
            return [future.result() for future in failed or futures]
