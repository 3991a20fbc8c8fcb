"""The phases with many tasks: the tasks that are left are handed to an engine until all are done."""

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from icefloe.batch.context.batch_context import BatchContext, TaskReference
from icefloe.batch.map.write_map_output import write_map_output
from icefloe.batch.map.write_part import write_part
from icefloe.batch.phase_record import PhaseTally, TrackedApplication, recorded_phase
from icefloe.batch.reduce.coalesce_map_outputs import load_coalesce_plan
from icefloe.batch.reduce.range_extents import write_extents
from icefloe.batch.reduce.read_range import read_range
from icefloe.batch.reduce.repair import MAX_ROUNDS, unreliable_store, void_damaged, whole_outputs
from icefloe.batch.stage.range_results import range_results
from icefloe.errors import IcefloeError, TransientError
from icefloe.flow import Phase
from icefloe.shuffle.map_output import new_attempt
from icefloe.shuffle.map_output_record import CorruptMapOutputError
from icefloe.shuffle.reduce_ranges import CoalescePlan
from icefloe.storage.requests import RequestTotals

__all__ = ["Engine", "Outcome", "run_phase"]

logger = logging.getLogger(__name__)


class Engine(Protocol):
    """Hands numbers to a function in as many processes or threads as it has."""

    def map(self, function: Callable[[int], Any], numbers: Sequence[int]) -> list[Any]:
        """The results, in the order of ``numbers``; begins with the first."""
        ...


class Outcome(NamedTuple):
    """The outcome of one task. Its error travels as a value, because an engine would turn it into text."""

    error: IcefloeError | None = None
    is_adopted: bool = False
    requests: RequestTotals = RequestTotals()


Task = Callable[[BatchContext, int], bool]
"""Runs a task; returns True if it kept the output of another attempt."""


def run_phase(
    phase: Phase, reference: TaskReference, engine: Engine, *, application: TrackedApplication | None = None
) -> None:
    """Runs the tasks that a phase has left; repeating it redoes only outputs that are missing or proven invalid.

    Args:
        phase: phase to run.
        reference: reference to the batch, with access to the table's files.
        engine: runs the tasks.
        application: Spark application of the engine, if it has one.

    Raises:
        BatchCommittedError: the batch is done.
        UnreliableStoreError: map outputs are found damaged again and again.
        IcefloeError: error of a task that failed. The outputs of the other tasks stay, and the rerun finds them.
    """
    context = reference.open()
    context.refuse_committed()
    with (
        context.fenced(),
        recorded_phase(context.store, phase, application=application) as tally,
        tally.counting(context.requests),
    ):
        match phase:
            case Phase.INSERT_ONLY:
                _write(_insert, context, reference, engine, tally)
            case Phase.SHUFFLE_WRITE:
                _write(_shuffle, context, reference, engine, tally)
            case Phase.SHUFFLE_READ:
                _read(context, reference, engine, tally)


def _insert(context: BatchContext, map_id: int) -> bool:
    attempt = new_attempt()
    return write_part(context, map_id, attempt=attempt).attempt != attempt


def _shuffle(context: BatchContext, map_id: int) -> bool:
    attempt = new_attempt()
    return write_map_output(context, map_id, attempt=attempt).attempt != attempt


def _deliver(context: BatchContext, range_id: int, *, epoch: int) -> bool:
    read_range(context, range_id, epoch=epoch)
    return False


def _write(task: Task, context: BatchContext, reference: TaskReference, engine: Engine, tally: PhaseTally) -> None:
    """Runs the map tasks that have no valid output."""
    sizes = context.plan.map_task_bytes
    states = context.map_outputs.states(range(len(sizes)))
    left = [map_id for map_id, state in enumerate(states) if state.record is None]
    left.sort(key=lambda map_id: (-sizes[map_id], map_id))
    logger.info("batch %d: %d of %d map tasks to do", context.plan.batch_number, len(left), len(sizes))
    tally.tasks_found += len(sizes) - len(left)
    _require_success(_run(task, reference, engine, left, tally))


def _read(context: BatchContext, reference: TaskReference, engine: Engine, tally: PhaseTally) -> None:
    """Reads all ranges; a map output that proves damaged is made again, and the ranges that need it are read again."""

    def redo(void: Sequence[int] = ()) -> None:
        again = PhaseTally()
        try:
            _write(_shuffle, context, reference, engine, again)
        finally:
            tally.map_tasks_run_again += again.tasks_run
            tally.map_outputs_void += len(void)
            tally.map_outputs_missing += max(0, again.tasks_run - len(void))
            tally.requests += again.requests

    plan = load_coalesce_plan(context)
    damaged: list[CorruptMapOutputError] = []
    for _ in range(MAX_ROUNDS):
        redo(sorted({damage.map_id for damage in damaged}))
        epoch = write_extents(context, plan, whole_outputs(context, redo))
        damaged = _read_ranges(context, reference, engine, plan, epoch, tally)
        if not damaged:
            return
    raise unreliable_store(context) from damaged[0]


def _read_ranges(
    context: BatchContext,
    reference: TaskReference,
    engine: Engine,
    plan: CoalescePlan,
    epoch: int,
    tally: PhaseTally,
) -> list[CorruptMapOutputError]:
    """Runs the ranges that have not delivered; voids and returns the map outputs that they found damaged."""
    results = range_results(context.store, [each.range_id for each in plan.ranges])
    left = [each.range_id for each, result in zip(plan.ranges, results, strict=True) if result is None]
    logger.info("batch %d: %d of %d ranges to do", context.plan.batch_number, len(left), len(plan.ranges))
    tally.tasks_found += len(results) - len(left)
    errors = _run(partial(_deliver, epoch=epoch), reference, engine, left, tally)
    damaged = [error for error in errors if isinstance(error, CorruptMapOutputError)]
    void_damaged(context, damaged)
    _require_success(error for error in errors if not isinstance(error, CorruptMapOutputError))
    return damaged


def _run(
    task: Task, reference: TaskReference, engine: Engine, numbers: Sequence[int], tally: PhaseTally
) -> list[IcefloeError]:
    """The errors of the tasks that failed."""
    tally.tasks_run += len(numbers)
    outcomes: list[Outcome] = engine.map(partial(_attempt, task, reference), numbers) if numbers else []
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    tally.tasks_failed += len(errors)
    tally.tasks_adopted += sum(outcome.is_adopted for outcome in outcomes)
    tally.requests = sum((outcome.requests for outcome in outcomes), tally.requests)
    return errors


def _attempt(task: Task, reference: TaskReference, number: int) -> Outcome:
    """Runs one task in the thread or process of an engine."""
    requests = RequestTotals()
    try:
        context = reference.open()
        try:
            with context.fenced():
                is_adopted = task(context, number)
        finally:
            requests = context.requests.taken()
        return Outcome(is_adopted=is_adopted, requests=requests)
    except IcefloeError as error:
        return Outcome(error=error, requests=requests)


def _require_success(errors: Iterable[IcefloeError]) -> None:
    """Raises an error if there is one; an error that retrying cannot fix comes first."""
    for error in sorted(errors, key=lambda error: isinstance(error, TransientError)):
        raise error
