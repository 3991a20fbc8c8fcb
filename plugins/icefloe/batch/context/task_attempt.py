"""One attempt of a task, where an engine runs it: what it costs, and how it ends."""

import traceback
from types import TracebackType
from typing import Self

from icefloe.batch.context.references import TaskReference
from icefloe.batch.context.running_batch import RunningBatch
from icefloe.batch.phase_record import TaskOutcome
from icefloe.batch.rows.memory_limit import out_of_memory
from icefloe.errors import IcefloeError, TransientError
from icefloe.memory_pool import release_unshared_memory
from icefloe.storage.requests import RequestTotals

__all__ = ["TaskAttempt"]


class TaskAttempt:
    """A block that is one attempt of a task: an error of ours, or of memory, becomes its outcome.

    Args:
        task: name of the task, for the sentence.
        reference: opens its batch.

    Attributes:
        is_adopted: True if the task found the valid output of another attempt and kept it.
        outcome: once the block has ended.
    """

    def __init__(self, task: str, reference: TaskReference) -> None:
        self._task = task
        self._reference = reference
        self._running: RunningBatch | None = None
        self.is_adopted = False
        self.outcome = TaskOutcome()

    def open(self) -> RunningBatch:
        """The batch in this process; its requests are the task's."""
        self._running = self._reference.open()
        return self._running

    def __enter__(self) -> Self:
        release_unshared_memory()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        requests = RequestTotals() if self._running is None else self._running.requests.taken()
        if isinstance(error, MemoryError):
            memory_bytes = self._reference.batch.settings.memory_bytes
            error = out_of_memory(error, task=self._task, memory_bytes=memory_bytes)
        elif isinstance(error, ImportError) and _is_of_our_own(error):
            error = _half_imported(error, self._task)
        if error is None or isinstance(error, IcefloeError):
            _clear_frames(error)
            self.outcome = TaskOutcome(error=error, is_adopted=self.is_adopted, requests=requests)
            return True
        return False


def _is_of_our_own(error: ImportError) -> bool:
    """True if a module of ours lacks a name that another module of ours asks for."""
    *_, last = traceback.walk_tb(error.__traceback__)
    asking = str(last[0].f_globals.get("__name__"))
    return asking.startswith("icefloe.") and (error.name or "").startswith("icefloe.")


def _half_imported(cause: ImportError, task: str) -> TransientError:
    """The error of a task that met a module of ours without some of its names.

    Python hands a thread that waited for another one's import the module as that import left it, also if it failed for
    lack of memory. What one of our modules asks another one for is always in a whole one.
    """
    error = TransientError(
        f"{task} found a part of icefloe that is not loaded as a whole ({cause}): memory ran out as it was loaded, or "
        "another release was installed meanwhile; run again"
    )
    error.__cause__ = cause
    return error


def _clear_frames(error: BaseException | None) -> None:
    """Lets go of what the functions that an error ended had in memory.

    An engine holds the errors of all tasks to the end of their phase. With a full disk that would be the buffers of
    every task of it, and with too little memory the memory that the other tasks lack.
    """
    seen = set[int]()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
