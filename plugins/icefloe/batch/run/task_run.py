"""One task of a phase, as a thread or a process of an engine runs it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from icefloe.batch.context.references import TaskReference
from icefloe.batch.map.write_map_output import write_map_output
from icefloe.batch.map.write_part import write_part
from icefloe.batch.reduce.read_range import read_range
from icefloe.batch.reduce.write_moves import write_moves
from icefloe.batch.rows.row_bound import out_of_memory
from icefloe.batch.rows.task_heap import release_unshared_memory
from icefloe.batch.task_outcome import TaskOutcome
from icefloe.errors import IcefloeError
from icefloe.flow import Phase
from icefloe.storage.requests import RequestTotals


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """The function that an engine calls with the number of each task.

    Attributes:
        phase: phase of the task.
        reference: opens the batch where the task runs.
        generations: generations that the map tasks commit, by map id; generation 0 is left out. The phase has just
            found that they have no record. A task that another attempt outruns adopts that one's output at its commit.
        epoch: epoch of the extents that shuffle_read fetches.
        finds_moves: True if the numbers of shuffle_read are hash ranges, which come before the reduce ranges.
    """

    phase: Phase
    reference: TaskReference
    generations: Mapping[int, int] = field(default_factory=dict)
    epoch: int = 0
    finds_moves: bool = False

    def __call__(self, number: int) -> TaskOutcome:
        """Runs the task of a number: a map id, or a range id of shuffle_read."""
        release_unshared_memory()
        attempt = self.reference.batch.surroundings.new_name()
        requests, is_adopted = RequestTotals(), False
        try:
            running, inputs = self.reference.open()
            try:
                # A map task writes below the batch's folder alone, and all of that is taken back. So it needs no look
                # before, which is a request for each task.
                with running.taken_back() if self.phase is Phase.SHUFFLE_WRITE else running.fenced():
                    match self.phase:
                        case Phase.INSERT_ONLY:
                            generation = self.generations.get(number, 0)
                            record = write_part(inputs, running.sink, number, attempt=attempt, generation=generation)
                            is_adopted = record.attempt != attempt
                        case Phase.SHUFFLE_WRITE:
                            generation = self.generations.get(number, 0)
                            record = write_map_output(inputs, number, attempt=attempt, generation=generation)
                            is_adopted = record.attempt != attempt
                        case Phase.SHUFFLE_READ if self.finds_moves:
                            write_moves(running.folder, number, epoch=self.epoch)
                        case Phase.SHUFFLE_READ:
                            read_range(
                                running.folder, running.sink, number, requests=running.requests, epoch=self.epoch
                            )
            finally:
                requests = running.requests.taken()
        except IcefloeError as error:
            return TaskOutcome(error=error, requests=requests)
        except MemoryError as cause:
            task, memory_bytes = f"task {number} of {self.phase}", self.reference.batch.settings.memory_bytes
            return TaskOutcome(error=out_of_memory(cause, task=task, memory_bytes=memory_bytes), requests=requests)
        return TaskOutcome(is_adopted=is_adopted, requests=requests)
