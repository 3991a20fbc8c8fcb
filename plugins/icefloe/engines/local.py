"""The local engine: the task functions in the threads of one process, without a JVM."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Event
from typing import TypeVar

from icefloe.batch.open.cores import local_cores
from icefloe.errors import thread_starts

__all__ = ["LocalEngine"]

_Result = TypeVar("_Result")


class LocalEngine:
    """Runs tasks in threads; Arrow and NumPy release the interpreter for most of the work.

    Args:
        threads: number of tasks that run at once; None: one per core.
        report_progress: called after each task, in any thread, with the number of tasks that are done and of all tasks.
    """

    def __init__(
        self, *, threads: int | None = None, report_progress: Callable[[int, int], None] | None = None
    ) -> None:
        self._threads = threads or local_cores()
        self._report_progress = report_progress

    def map(self, function: Callable[[int], _Result], numbers: Sequence[int]) -> list[_Result]:
        """The results, in the order of ``numbers``; after an exception no further task is begun, and it is raised."""
        is_over = Event()
        done = count(1)

        def run(number: int) -> list[_Result]:
            """The result; nothing if another task failed before, because that task's exception is raised instead."""
            if is_over.is_set():
                return []
            try:
                result = function(number)
            except BaseException:
                is_over.set()
                raise
            if self._report_progress is not None:
                self._report_progress(next(done), len(numbers))
            return [result]

        with ThreadPoolExecutor(self._threads, thread_name_prefix="icefloe") as pool:
            try:
                with thread_starts():
                    futures = [pool.submit(run, number) for number in numbers]
                return [result for future in futures for result in future.result()]
            finally:
                # The pool waits for all that was submitted. After Ctrl-C, tasks that have not begun must end at once.
                is_over.set()
