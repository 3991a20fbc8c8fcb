"""One task of a phase, as a thread or a process of an engine runs it: of a map task, or of a range."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from icefloe.batch.context.map_inputs import MapInputs
from icefloe.batch.context.references import TaskReference
from icefloe.batch.context.task_attempt import TaskAttempt
from icefloe.batch.map.write_map_output import write_map_output
from icefloe.batch.map.write_part import write_part
from icefloe.batch.reduce.read_range import read_range
from icefloe.batch.reduce.write_moves import write_moves
from icefloe.batch.table_access import TableAccess
from icefloe.batch.task_outcome import TaskOutcome
from icefloe.flow import Phase


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
        with TaskAttempt(f"task {map_id} of {self.phase}", self.reference) as attempt:
            running = attempt.open()
            inputs = MapInputs(folder=running.folder, io=self.files.open(running.plan))
            if self.phase is Phase.INSERT_ONLY:
                with running.fenced():
                    record = write_part(inputs, running.folder_of_changes, map_id, attempt=name, generation=generation)
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
        with TaskAttempt(f"task {range_id} of {Phase.SHUFFLE_READ}", self.reference) as attempt:
            running = attempt.open()
            with running.fenced():
                if self.finds_moves:
                    write_moves(running.folder, range_id, epoch=self.epoch)
                else:
                    read_range(
                        running.folder, running.folder_of_changes, range_id, requests=running.requests, epoch=self.epoch
                    )
        return attempt.outcome
