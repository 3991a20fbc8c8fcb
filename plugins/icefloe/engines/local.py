"""The local engine: the task functions in the threads of one process, without a JVM."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Event
from typing import Any

from icefloe.batch.open.cores import local_cores

__all__ = ["LocalEngine"]


class LocalEngine:
    """Runs tasks in threads; Arrow and NumPy release the interpreter for most of the work.

    Args:
        threads: number of tasks that run at once; None: one per core.
        tell: called after each task, in any thread, with the number of tasks that are done and of all tasks.
    """

    def __init__(self, *, threads: int | None = None, tell: Callable[[int, int], None] | None = None) -> None:
        self._threads = threads or local_cores()
        self._tell = tell

    def map(self, function: Callable[[int], Any], numbers: Sequence[int]) -> list[Any]:
        """The results, in the order of ``numbers``; after an exception no further task is begun, and it is raised."""
        is_over = Event()
        done = count(1)

        def run(number: int) -> Any:
            if is_over.is_set():
                # Nobody sees it: the exception of the other task is raised instead.
                return None
            try:
                result = function(number)
            except BaseException:
                is_over.set()
                raise
            if self._tell is not None:
                self._tell(next(done), len(numbers))
            return result

        with ThreadPoolExecutor(self._threads, thread_name_prefix="icefloe") as pool:
            futures = [pool.submit(run, number) for number in numbers]
            try:
                return [future.result() for future in futures]
            finally:
                # The pool waits for all that was submitted. After Ctrl-C, tasks that have not begun must end at once.
                is_over.set()
