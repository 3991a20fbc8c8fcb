"""The phases that run as many tasks: what is left to do, handed to an engine until it is done."""

import logging
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from functools import partial
from typing import Any, Protocol

from icefloe.batch.coalesce_map_outputs import load_coalesce_plan
from icefloe.batch.context import BatchContext, TaskReference
from icefloe.batch.extents import write_extents
from icefloe.batch.map_outputs import MAX_ROUNDS, unreliable_store, void_damaged, whole_outputs
from icefloe.batch.read_range import read_range
from icefloe.batch.results import range_results
from icefloe.batch.write_map_output import write_map_output
from icefloe.batch.write_part import write_part
from icefloe.errors import IcefloeError, TransientError
from icefloe.shuffle.commit_record import CorruptMapOutputError
from icefloe.shuffle.ranges import CoalescePlan

__all__ = ["Engine", "Phase", "run_phase"]

logger = logging.getLogger(__name__)


class Phase(StrEnum):
    """The tasks of the DAG that an engine runs."""

    INSERT_ONLY = "insert_only"
    SHUFFLE_WRITE = "shuffle_write"
    SHUFFLE_READ = "shuffle_read"


class Engine(Protocol):
    """Hands numbers to a function in as many processes or threads as it has."""

    def map(self, function: Callable[[int], Any], numbers: Sequence[int]) -> list[Any]:
        """The results, in the order of ``numbers``; begins with the first."""
        ...


Task = Callable[[BatchContext, int], Any]


def run_phase(phase: Phase, reference: TaskReference, engine: Engine) -> None:
    """Runs what a phase has left to do; repeating it redoes only what is missing or proven invalid.

    Args:
        phase: which.
        reference: of the batch, with what opens the table's files.
        engine: what runs the tasks.

    Raises:
        BatchCommittedError: the batch is done.
        UnreliableStoreError: map outputs are found damaged again and again.
        IcefloeError: of a task that failed; what the others did stays and is found by the rerun.
    """
    context = reference.open()
    context.refuse_committed()
    match phase:
        case Phase.INSERT_ONLY:
            _write(write_part, context, reference, engine)
        case Phase.SHUFFLE_WRITE:
            _write(write_map_output, context, reference, engine)
        case Phase.SHUFFLE_READ:
            _read(context, reference, engine)


def _write(task: Task, context: BatchContext, reference: TaskReference, engine: Engine) -> None:
    """Runs the map tasks that have no valid output."""
    sizes = context.plan.map_task_bytes
    states = context.map_outputs.states(range(len(sizes)))
    left = [map_id for map_id, state in enumerate(states) if state.record is None]
    left.sort(key=lambda map_id: (-sizes[map_id], map_id))
    logger.info("batch %d: %d of %d map tasks to do", context.plan.batch_number, len(left), len(sizes))
    _require_success(_run(task, reference, engine, left))


def _read(context: BatchContext, reference: TaskReference, engine: Engine) -> None:
    """Reads all ranges; a map output that proves damaged is made again, and the ranges that need it are read again."""

    def redo(_: Sequence[int] = ()) -> None:
        _write(write_map_output, context, reference, engine)

    plan = load_coalesce_plan(context)
    damaged: list[CorruptMapOutputError] = []
    for _ in range(MAX_ROUNDS):
        redo()
        epoch = write_extents(context, plan, whole_outputs(context, redo))
        damaged = _read_ranges(context, reference, engine, plan, epoch)
        if not damaged:
            return
    raise unreliable_store(context) from damaged[0]


def _read_ranges(
    context: BatchContext, reference: TaskReference, engine: Engine, plan: CoalescePlan, epoch: int
) -> list[CorruptMapOutputError]:
    """Runs the ranges that have not delivered; voids the map outputs they found damaged, and gives what was found."""
    results = range_results(context.store, [each.range_id for each in plan.ranges])
    left = [each.range_id for each, result in zip(plan.ranges, results, strict=True) if result is None]
    logger.info("batch %d: %d of %d ranges to do", context.plan.batch_number, len(left), len(plan.ranges))
    errors = _run(partial(read_range, epoch=epoch), reference, engine, left)
    damaged = [error for error in errors if isinstance(error, CorruptMapOutputError)]
    void_damaged(context, damaged)
    _require_success(error for error in errors if not isinstance(error, CorruptMapOutputError))
    return damaged


def _run(task: Task, reference: TaskReference, engine: Engine, numbers: Sequence[int]) -> list[IcefloeError]:
    """The errors of the tasks that failed."""
    outcomes = engine.map(partial(_attempt, task, reference), numbers) if numbers else []
    return [error for error in outcomes if error is not None]


def _attempt(task: Task, reference: TaskReference, number: int) -> IcefloeError | None:
    """Runs one task where an engine put it; its error travels as a value, an engine would turn it into text."""
    try:
        task(reference.open(), number)
    except IcefloeError as error:
        return error
    return None


def _require_success(errors: Iterable[IcefloeError]) -> None:
    """Raises what went wrong; an error that retrying cannot fix before one that it can."""
    for error in sorted(errors, key=lambda error: isinstance(error, TransientError)):
        raise error
