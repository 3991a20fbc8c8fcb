"""The phases with many tasks: the tasks that are left are handed to an engine until all are done."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from icefloe.batch.context.batch_folder import BatchFolder
from icefloe.batch.context.references import BatchReference, TaskReference
from icefloe.batch.deliver.deliver_batch import Engine, deliver_batch
from icefloe.batch.phase_record import PhaseTally, TrackedApplication, recorded_phase
from icefloe.batch.reduce.coalesce_map_outputs import load_coalesce_plan
from icefloe.batch.reduce.repair import until_readable, void_damaged
from icefloe.batch.run.renewed_files import RenewedFiles
from icefloe.batch.run.task_run import Outcome, TaskRun
from icefloe.batch.stage.range_results import load_range_results
from icefloe.errors import IcefloeError, TransientError
from icefloe.flow import Phase
from icefloe.shuffle.map_output_record import CorruptMapOutputError
from icefloe.shuffle.reduce_ranges import CoalescePlan

__all__ = ["run_phase"]

logger = logging.getLogger(__name__)


def run_phase(
    phase: Phase,
    reference: BatchReference,
    engine: Engine,
    *,
    environ: Mapping[str, str],
    application: TrackedApplication | None = None,
) -> None:
    """Runs the tasks that a phase has left; repeating it redoes only outputs that are missing or proven invalid.

    Args:
        phase: phase to run.
        reference: reference to the batch. Access to the table's files is requested from the catalog.
        engine: runs the tasks.
        environ: environment of this process.
        application: Spark application of the engine, if it has one.

    Raises:
        BatchCommittedError: the batch is done.
        UnreliableStoreError: map outputs are found damaged again and again.
        IcefloeError: error of a task that failed. The outputs of the other tasks stay, and the rerun finds them.
    """
    if phase is Phase.DELIVER:
        deliver_batch(reference, engine, application=application)
        return
    running = reference.open()
    files = RenewedFiles(running, reference, environ)
    while files.are_due:
        with (
            files as tasks_reference,
            running.fenced(),
            recorded_phase(running.written, phase, application=application) as tally,
            tally.counting(running.requests),
        ):
            tasks = _Tasks(folder=running.folder, reference=tasks_reference, engine=engine, tally=tally)
            if phase is Phase.SHUFFLE_READ:
                tasks.read_ranges()
            else:
                tasks.write_missing(phase)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tasks:
    """The tasks of one batch, and the engine that runs them."""

    folder: BatchFolder
    reference: TaskReference
    engine: Engine
    tally: PhaseTally

    def write_missing(self, phase: Phase) -> None:
        """Runs the map tasks that have no valid output, the largest first."""
        sizes = self.folder.plan.map_task_bytes
        states = self.folder.map_outputs.states(range(len(sizes)))
        missing = [map_id for map_id, state in enumerate(states) if state.record is None]
        # The largest first: one that begins last would run alone at the end.
        missing.sort(key=lambda map_id: (-sizes[map_id], map_id))
        logger.info("batch %d: %d of %d map tasks to do", self.folder.plan.batch_number, len(missing), len(sizes))
        self.tally.tasks_found += len(sizes) - len(missing)
        _require_success(self._run(TaskRun(phase=phase, reference=self.reference), missing))

    def read_ranges(self) -> None:
        """Reads all ranges; a damaged map output is made again, and the ranges that need it are read again."""
        plan = load_coalesce_plan(self.folder)
        until_readable(self.folder, plan, self._write_again, lambda epoch: self._read_missing(plan, epoch))

    def _write_again(self, voided_map_ids: Sequence[int]) -> None:
        """Runs every map task whose output was voided or is gone, as a part of another phase."""
        again = PhaseTally()
        try:
            _Tasks(folder=self.folder, reference=self.reference, engine=self.engine, tally=again).write_missing(
                Phase.SHUFFLE_WRITE
            )
        finally:
            self.tally.map_tasks_run_again += again.tasks_run
            self.tally.map_outputs_void += len(voided_map_ids)
            self.tally.map_outputs_missing += max(0, again.tasks_run - len(voided_map_ids))
            self.tally.requests += again.requests

    def _read_missing(self, plan: CoalescePlan, epoch: int) -> list[CorruptMapOutputError]:
        """Runs the ranges that have not delivered; voids and returns the map outputs that they found damaged."""
        results = load_range_results(self.folder.store, [each.range_id for each in plan.ranges])
        missing = [each.range_id for each, result in zip(plan.ranges, results, strict=True) if result is None]
        logger.info("batch %d: %d of %d ranges to do", self.folder.plan.batch_number, len(missing), len(plan.ranges))
        self.tally.tasks_found += len(results) - len(missing)
        errors = self._run(TaskRun(phase=Phase.SHUFFLE_READ, reference=self.reference, epoch=epoch), missing)
        damaged = [error for error in errors if isinstance(error, CorruptMapOutputError)]
        # First: whoever is killed in between finds them lost again.
        self.tally.lose_nodes(damaged)
        void_damaged(self.folder, damaged)
        _require_success(error for error in errors if not isinstance(error, CorruptMapOutputError))
        return damaged

    def _run(self, task: TaskRun, numbers: Sequence[int]) -> list[IcefloeError]:
        """The errors of the tasks that failed."""
        self.tally.tasks_run += len(numbers)
        outcomes: list[Outcome] = self.engine.map(task, numbers) if numbers else []
        errors = [outcome.error for outcome in outcomes if outcome.error is not None]
        self.tally.tasks_failed += len(errors)
        self.tally.tasks_adopted += sum(outcome.is_adopted for outcome in outcomes)
        self.tally.requests = sum((outcome.requests for outcome in outcomes), self.tally.requests)
        return errors


def _require_success(errors: Iterable[IcefloeError]) -> None:
    """Raises an error if there is one; an error that retrying cannot fix comes first."""
    for error in sorted(errors, key=lambda error: isinstance(error, TransientError)):
        raise error
