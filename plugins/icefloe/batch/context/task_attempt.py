"""One attempt of a task: what it costs, and how it ends."""

import traceback
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

from icefloe.batch.context.batch_folder import BatchFileMissingError, UnfinishedTasksError
from icefloe.batch.context.references import BatchReference
from icefloe.batch.context.running_batch import RunningBatch
from icefloe.batch.phase_record import TaskOutcome
from icefloe.batch.plan_document import error_key
from icefloe.batch.rows.row_reader import RowLimit
from icefloe.documents import Document, dump_document, load_document
from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.memory_pool import release_unshared_memory
from icefloe.redaction.hidden import redacted
from icefloe.storage.requests import RequestTotals

__all__ = ["FailedAttempt", "TaskAttempt"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAttempt(Document):
    """The error of a failed attempt of a phase.

    Attributes:
        family: ``terminal``: retrying cannot help; ``transient``: it may.
        runs_again: True if earlier tasks of the batch must run again; see `BatchFileMissingError`.
    """

    version: Literal[1] = 1
    family: Literal["terminal", "transient"]
    sentence: str
    runs_again: bool = False

    def as_error(self) -> IcefloeError:
        """The error as it was raised in the job; its facts stay there."""
        if self.family == "terminal":
            return (BatchFileMissingError if self.runs_again else TerminalError)(self.sentence)
        return (UnfinishedTasksError if self.runs_again else TransientError)(self.sentence)

    @classmethod
    def load(cls, reference: BatchReference, phase: str, attempt: str) -> Self | None:
        """The error of an attempt; None if it died without one."""
        store = reference.folder
        key = error_key(phase, attempt)
        data = store.find(key)
        return None if data is None else load_document(cls, data, what=f"the error document {store.url}/{key}")

    @classmethod
    def save(cls, reference: BatchReference, phase: str, attempt: str, error: IcefloeError) -> Self:
        """Writes an error next to the plan, unless the batch is over."""
        document = cls(
            family="terminal" if isinstance(error, TerminalError) else "transient",
            sentence=redacted(error.sentence),
            runs_again=isinstance(error, BatchFileMissingError | UnfinishedTasksError),
        )
        store = reference.fenced_folder()
        with store.taken_back_if_over(reference.is_over):
            store.put(error_key(phase, attempt), dump_document(document))
        return document


class TaskAttempt:
    """A block that is one attempt of a task: an error of ours, or of memory, becomes its outcome.

    Attributes:
        is_adopted: True if the task found the valid output of another attempt and kept it.
    """

    def __init__(self, task: str, reference: BatchReference) -> None:
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
            memory_bytes = self._reference.settings.pipeline.shuffle.memory_bytes
            error = RowLimit(memory_bytes=memory_bytes).out_of_memory(error, task=self._task)
        elif isinstance(error, ImportError) and _is_of_our_own(error):
            error = _half_imported(error, self._task)
        if error is None or isinstance(error, IcefloeError):
            _clear_frames(error)
            self.outcome = TaskOutcome(error=error, is_adopted=self.is_adopted, requests=requests)
            return True
        return False


def _is_of_our_own(error: ImportError) -> bool:
    """True if one of our modules lacks a name that another asks for."""
    *_, last = traceback.walk_tb(error.__traceback__)
    asking = str(last[0].f_globals.get("__name__"))
    return asking.startswith("icefloe.") and (error.name or "").startswith("icefloe.")


def _half_imported(cause: ImportError, task: str) -> TransientError:
    """Another thread's import failed, and left a module of ours without some of its names."""
    error = TransientError(
        f"{task} found a part of icefloe that is not loaded as a whole ({cause}): memory ran out as it was loaded, or "
        "another release was installed meanwhile; run again"
    )
    error.__cause__ = cause
    return error


def _clear_frames(error: BaseException | None) -> None:
    """Frees what an error's functions had in memory: engines hold all errors of a phase."""
    seen = set[int]()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
