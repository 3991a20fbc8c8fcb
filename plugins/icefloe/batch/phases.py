"""The phases with many tasks, handed to an engine until nothing is left, and coalesce between them."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from icefloe.batch.context.batch_folder import BatchFolder, MapInputs
from icefloe.batch.context.references import BatchReference, table_files
from icefloe.batch.context.running_batch import RunningBatch
from icefloe.batch.context.task_attempt import TaskAttempt
from icefloe.batch.deliver.check_batch import BatchChecks
from icefloe.batch.deliver.deliver_batch import deliver_batch
from icefloe.batch.map.write_map_output import write_map_output
from icefloe.batch.map.write_part import write_part
from icefloe.batch.phase_record import Engine, PhaseTally, TaskOutcome, TrackedApplication, require_success
from icefloe.batch.reduce.coalesce_map_outputs import (
    Coalesced,
    coalesce_map_outputs,
    load_coalesce_plan,
    until_readable,
    void_damaged,
)
from icefloe.batch.reduce.moves import write_moves
from icefloe.batch.reduce.read_range import read_range
from icefloe.batch.staged_changes import RangeResult
from icefloe.errors import IcefloeError
from icefloe.flow import FlowTask, Phase
from icefloe.iceberg.catalog.confined_io import TableAccess
from icefloe.iceberg.catalog.file_io import FileRefusedError, FileUnansweredError
from icefloe.shuffle.coalesce import CoalescePlan
from icefloe.shuffle.committed_output import CorruptMapOutputError

__all__ = ["run_phase", "run_without_engine"]

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class MapTaskRun:
    """Called with the number of each map task; commits ``generations`` by map id, 0 if left out."""

    phase: Phase
    reference: BatchReference
    files: TableAccess
    generations: Mapping[int, int] = field(default_factory=dict)

    def __call__(self, map_id: int) -> TaskOutcome:
        name, generation = self.reference.surroundings.new_name(), self.generations.get(map_id, 0)
        with TaskAttempt(f"task {map_id} of {self.phase}", self.reference) as attempt:
            running = attempt.open()
            inputs = MapInputs.of(running.folder, self.files)
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
    """Called with the number of each range; with ``finds_moves``, of hash ranges, which come first."""

    reference: BatchReference
    epoch: int
    finds_moves: bool = False

    def __call__(self, range_id: int) -> TaskOutcome:
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


class TableFiles:
    """Access to the table's files, asked for when a task first needs it. Its credentials may expire in a phase."""

    def __init__(self, running: RunningBatch, reference: BatchReference) -> None:
        self._running = running
        self._reference = reference
        self._outputs_before = -1
        # No cached property: in Python 3.11 it has one lock for all phases, which would wait for each other's catalogs.
        self._access: TableAccess | None = None

    @property
    def access(self) -> TableAccess:
        if self._access is None:
            self._access = self._fresh()
        return self._access

    def renew(self) -> bool:
        """Takes new credentials; False if expired ones were not the cause of a refusal."""
        # Not called in tasks: executors need not reach the catalog.
        before, self._access = self.access, self._fresh()
        outputs_before, self._outputs_before = self._outputs_before, self._outputs()
        # The same credentials, or no task more than before.
        return self._access != before and self._outputs_before != outputs_before

    def _fresh(self) -> TableAccess:
        return table_files(self._reference)

    def _outputs(self) -> int:
        folder = self._running.folder
        return folder.plan.num_map_tasks - len(folder.map_outputs.missing(range(folder.plan.num_map_tasks)))


def run_phase(
    phase: Phase,
    reference: BatchReference,
    engine: Engine,
    *,
    application: TrackedApplication | None = None,
) -> None:
    """Runs the tasks that a phase has left; repeating it redoes only outputs that are missing or proven invalid.

    `TerminalError` if the batch is done.
    """
    if phase is Phase.DELIVER:
        deliver_batch(reference, engine, application=application)
        return
    running = reference.open()
    files, is_done = TableFiles(running, reference), False
    while not is_done:
        try:
            with running.recording(phase, application) as tally:
                task_reference = reference.for_tasks(running.plan)
                tasks = _Tasks(folder=running.folder, reference=task_reference, files=files, engine=engine, tally=tally)
                tasks.run(phase)
            is_done = True
        except (FileRefusedError, FileUnansweredError) as error:
            if not files.renew():
                raise
            logger.info("the phase goes on with new credentials, because the storage gave no files: %s", error)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tasks:
    folder: BatchFolder
    reference: BatchReference
    files: TableFiles
    engine: Engine
    tally: PhaseTally

    def run(self, phase: Phase) -> None:
        """The tasks that the phase has left."""
        if phase is Phase.SHUFFLE_READ:
            # A damaged map output is made again, and the ranges that need it are read again. The epoch is the sum of
            # the generations, which are all 0 where nothing was ever voided.
            epoch = 0 if self._is_new(self.tally) else None
            until_readable(self.folder, load_coalesce_plan(self.folder), self.read, self.redo, epoch=epoch)
        else:
            self._write_map_outputs(phase, self.tally)

    def _write_map_outputs(self, phase: Phase, tally: PhaseTally) -> None:
        """Runs tasks without a valid output, the largest first: one that begins last would run alone at the end."""
        sizes = self.folder.plan.map_task_bytes
        map_ids = range(len(sizes))
        missing = dict.fromkeys(map_ids, 0) if self._is_new(tally) else self.folder.map_outputs.missing(map_ids)
        logger.info("batch %d: %d of %d map tasks to do", self.folder.plan.batch_number, len(missing), len(sizes))
        tally.begin(len(missing), of=len(sizes))
        if missing:
            # Without a task left, the catalog is not asked for the table's files: it may be down. Generation 0 is left
            # out, that of nearly all: every task of a job gets them.
            later = {map_id: generation for map_id, generation in missing.items() if generation}
            task = MapTaskRun(phase=phase, reference=self.reference, files=self.files.access, generations=later)
            largest_first = sorted(missing, key=lambda map_id: (-sizes[map_id], map_id))
            require_success(tally.finish(self.engine.map(task, largest_first)))

    def _is_new(self, tally: PhaseTally) -> bool:
        """No attempt before this one, and no void map output."""
        # Each look at a record is a request for each map task. A record that was lost since coalesce saw it is found
        # by commit, and made again by the next attempt.
        return tally.is_first and not self.folder.map_outputs.has_voids

    def redo(self, map_ids: Sequence[int]) -> None:
        """Makes void or lost map outputs again, as a part of another phase."""
        again = PhaseTally.of(Phase.SHUFFLE_WRITE)
        try:
            self._write_map_outputs(Phase.SHUFFLE_WRITE, again)
        finally:
            record, tasks_run = self.tally.record, again.record.tasks_run
            record.map_tasks_run_again += tasks_run
            record.map_outputs_void += len(map_ids)
            record.map_outputs_missing += max(0, tasks_run - len(map_ids))
            record.requests += again.record.requests

    def read(self, coalesce_plan: CoalescePlan, epoch: int) -> list[CorruptMapOutputError]:
        """Runs the missing ranges; voids and returns damaged map outputs."""
        results = RangeResult.load_all(self.folder.store, [each.range_id for each in coalesce_plan.ranges])
        missing = [each.range_id for each, result in zip(coalesce_plan.ranges, results, strict=True) if result is None]
        logger.info(
            "batch %d: %d of %d ranges to do", self.folder.plan.batch_number, len(missing), len(coalesce_plan.ranges)
        )
        if not missing:
            self.tally.begin(0, of=len(results))
            return []
        damaged = self._find_moves(coalesce_plan, epoch)
        if damaged:
            return damaged
        self.tally.begin(len(missing), of=len(results))
        task = RangeRun(reference=self.reference, epoch=epoch)
        return self._damaged(self.tally.finish(self.engine.map(task, missing)))

    def _find_moves(self, coalesce_plan: CoalescePlan, epoch: int) -> list[CorruptMapOutputError]:
        """See `read`."""
        if not coalesce_plan.hash_ranges:
            return []
        # A tally of their own: progress and report count reduce ranges.
        of_hashes = PhaseTally.of(Phase.SHUFFLE_READ)
        task = RangeRun(reference=self.reference, epoch=epoch, finds_moves=True)
        errors = of_hashes.finish(self.engine.map(task, [each.range_id for each in coalesce_plan.hash_ranges]))
        self.tally.record.requests += of_hashes.record.requests
        return self._damaged(errors)

    def _damaged(self, errors: Sequence[IcefloeError]) -> list[CorruptMapOutputError]:
        """Voids and returns damaged map outputs; raises other errors."""
        damaged = [error for error in errors if isinstance(error, CorruptMapOutputError)]
        # First: whoever is killed in between finds them lost again.
        self.tally.lose_nodes(damaged)
        void_damaged(self.folder, damaged)
        require_success(error for error in errors if not isinstance(error, CorruptMapOutputError))
        return damaged


def run_without_engine(task: FlowTask, reference: BatchReference) -> dict[str, object]:
    """Runs ``coalesce`` or ``check``; returns its figures. `TerminalError` if the batch is done."""
    if task is FlowTask.CHECK:
        found = BatchChecks(reference.settings.pipeline).run(reference)
        return {each.name: each.rows if each.error is None else None for each in found}
    plan = run_coalesce(reference).plan
    return {"ranges": len(plan.ranges), "num_partitions": plan.num_partitions}


def run_coalesce(reference: BatchReference) -> Coalesced:
    """Plans the reduce ranges of a batch, or finds them.

    It opens the table's files too, because a damaged map output is made again here.
    """
    running = reference.open()
    inputs = MapInputs.of(running.folder, table_files(reference))
    with running.recording(FlowTask.COALESCE) as tally:
        return coalesce_map_outputs(inputs, tally, new_name=reference.surroundings.new_name)
