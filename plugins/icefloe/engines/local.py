"""The local engine: the task functions in the threads of one process, without a JVM."""

from collections.abc import Callable, Sequence
from itertools import count
from typing import TypeVar

from icefloe.engines.cores import tasks_at_once
from icefloe.patience import map_in_threads
from icefloe.pipeline.settings import ShuffleSettings

__all__ = ["LocalEngine"]

_Result = TypeVar("_Result")


class LocalEngine:
    """Runs tasks in threads; Arrow and NumPy release the interpreter for most of the work.

    Args:
        threads: tasks at once; None: one per core, if the memory of this process holds as many.
        report_progress: called after each task, in any thread, with tasks done and all tasks.
    """

    def __init__(
        self,
        *,
        threads: int | None = None,
        memory_bytes: int = ShuffleSettings().memory_bytes,
        report_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.threads = threads or tasks_at_once(memory_bytes)
        self._report_progress = report_progress

    def map(self, function: Callable[[int], _Result], numbers: Sequence[int]) -> list[_Result]:
        """The results in the order of ``numbers``; an exception is raised, and no further task begins."""
        done = count(1)

        def run(number: int) -> _Result:
            result = function(number)
            if self._report_progress is not None:
                self._report_progress(next(done), len(numbers))
            return result

        return map_in_threads(run, numbers, threads=self.threads, name="icefloe")
