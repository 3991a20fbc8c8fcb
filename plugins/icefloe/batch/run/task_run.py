"""One task of a phase, as a thread or a process of an engine runs it: of a map task, or of a range."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from icefloe.batch.context.map_inputs import MapInputs
from icefloe.batch.context.references import TaskReference
from icefloe.batch.context.running_batch import RunningBatch
from icefloe.batch.map.write_map_output import write_map_output
from icefloe.batch.map.write_part import write_part
from icefloe.batch.reduce.read_range import read_range
from icefloe.batch.reduce.write_moves import write_moves
from icefloe.batch.rows.memory_limit import out_of_memory
from icefloe.batch.table_access import TableAccess
from icefloe.batch.task_outcome import TaskOutcome
from icefloe.errors import IcefloeError
from icefloe.flow import Phase
from icefloe.memory_pool import release_unshared_memory
from icefloe.storage.requests import RequestTotals


@dataclass(frozen=True, slots=True, kw_only=True)
class MapTaskRun:
    """The function that an engine calls with the number of each map task.

    Attributes:
        phase: insert_only or shuffle_write.
        reference: opens the batch where the task runs.
        files: access to the table's files.
        generations: generations that the map tasks commit, by map id; generation 0 is left out. The phase has just
            found that they have no record. A task that another attempt outruns adopts that one's output at its commit.
    """

    phase: Phase
    reference: TaskReference
    files: TableAccess
    generations: Mapping[int, int] = field(default_factory=dict)

    def __call__(self, map_id: int) -> TaskOutcome:
        """Runs the map task of an id."""
        name, generation = self.reference.batch.surroundings.new_name(), self.generations.get(map_id, 0)
        with _Attempt(f"task {map_id} of {self.phase}", self.reference) as attempt:
            running = attempt.open()
            inputs = MapInputs(folder=running.folder, io=self.files.open(running.plan))
            if self.phase is Phase.INSERT_ONLY:
                with running.fenced():
                    record = write_part(inputs, running.sink, map_id, attempt=name, generation=generation)
            else:
                # It writes below the batch's folder alone, and all of that is taken back. So it needs no look before,
                # which is a request for each task.
                with running.taken_back():
                    record = write_map_output(inputs, map_id, attempt=name, generation=generation)
            attempt.is_adopted = record.attempt != name
        return attempt.outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeRun:
    """The function that an engine calls with the number of each range of shuffle_read.

    Attributes:
        reference: opens the batch where the task runs.
        epoch: epoch of the extents to fetch.
        finds_moves: True if the numbers are those of hash ranges, which come before the reduce ranges.
    """

    reference: TaskReference
    epoch: int
    finds_moves: bool = False

    def __call__(self, range_id: int) -> TaskOutcome:
        """Runs the task of a range."""
        with _Attempt(f"task {range_id} of {Phase.SHUFFLE_READ}", self.reference) as attempt:
            running = attempt.open()
            with running.fenced():
                if self.finds_moves:
                    write_moves(running.folder, range_id, epoch=self.epoch)
                else:
                    read_range(running.folder, running.sink, range_id, requests=running.requests, epoch=self.epoch)
        return attempt.outcome


class _Attempt:
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
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        requests = RequestTotals() if self._running is None else self._running.requests.taken()
        if isinstance(error, MemoryError):
            memory_bytes = self._reference.batch.settings.memory_bytes
            error = out_of_memory(error, task=self._task, memory_bytes=memory_bytes)
        if error is None or isinstance(error, IcefloeError):
            self.outcome = TaskOutcome(error=error, is_adopted=self.is_adopted, requests=requests)
            return True
        return False
