"""The task between the phases: index files in, reduce ranges and their extents out."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np

from icefloe.batch.context.batch_folder import (
    BatchFileMissingError,
    BatchFolder,
    MapInputs,
    UnfinishedTasksError,
    find_batch_document,
    says_remedy,
)
from icefloe.batch.map.write_map_output import write_map_output
from icefloe.batch.phase_record import PhaseTally
from icefloe.batch.plan_document import COALESCE_PLAN, extents_key
from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.flow import Phase
from icefloe.shuffle.blocks import BlockRows
from icefloe.shuffle.coalesce import CoalescePlan
from icefloe.shuffle.committed_output import CorruptMapOutputError, MapOutputRecord, MissingMapOutputError
from icefloe.shuffle.extents import CollectedBlocks, RangeExtents, StoredExtents
from icefloe.shuffle.map_output import new_attempt
from icefloe.storage.store import KeyMissingError, RangeMissingError

__all__ = ["BatchExtents", "Coalesced", "coalesce_map_outputs", "load_coalesce_plan", "until_readable", "void_damaged"]

logger = logging.getLogger(__name__)


class ReduceInputGoneError(TransientError):
    """Extents are gone or damaged; without ``are_extents``, moves are. Both are made again from map outputs."""

    is_met_everywhere = True
    are_extents: bool


class BatchExtents:
    """The extents of a batch in one epoch.

    An epoch is the sum of the generations of all map outputs. Generations only grow, so a map output that is made again
    begins a new epoch.
    """

    def __init__(self, folder: BatchFolder, epoch: int) -> None:
        self._folder = folder
        self._key = extents_key(epoch)
        self._opened: StoredExtents | None = None

    @property
    def hash_range_ids(self) -> list[int]:
        """Ids of the ranges of hash partitions; see `of`."""
        with self._whole() as extents:
            return np.flatnonzero(extents.ranges["start"] >= self._folder.plan.num_partitions).tolist()

    def of(self, range_id: int) -> RangeExtents:
        """The extents of one range; `ReduceInputGoneError` if they are gone or damaged."""
        with self._whole() as extents:
            return extents.of(range_id)

    @contextmanager
    def _whole(self) -> Iterator[StoredExtents]:
        store = self._folder.store
        try:
            if self._opened is None:
                with says_remedy(store):
                    self._opened = StoredExtents.open(store, self._key)
            yield self._opened
        except (KeyMissingError, RangeMissingError, ValueError) as cause:
            raise ReduceInputGoneError(
                f"the extents {store.url}/{self._key}, which coalesce wrote, are gone or damaged: run again, the next "
                "try of this task writes them once more",
                url=store.url,
                key=self._key,
                are_extents=True,
            ) from cause


_MAX_ROUNDS: Final = 4
"""Number of times that damaged map outputs are made again before the store is blamed."""
_OUTPUTS_AT_ONCE: Final = 128
"""Their small files are in memory at the same time: 200 KiB each at 4,096 partitions."""


Redo = Callable[[Sequence[int]], None]
"""Runs map tasks, perhaps also others without an output."""


@contextmanager
def read_all_blocks(folder: BatchFolder, redo: Redo) -> Iterator[CollectedBlocks]:
    """The blocks of all map outputs; damaged outputs are made again."""
    damaged: list[CorruptMapOutputError] = []
    for _ in range(_MAX_ROUNDS):
        with CollectedBlocks(folder.plan.num_partitions + folder.plan.hash_partitions) as blocks:
            damaged = _collect(folder, redo, blocks)
            if not damaged:
                yield blocks
                return
        void_damaged(folder, damaged)
        redo(_map_ids(damaged))
    raise _unreliable_store(folder) from damaged[0]


def _collect(folder: BatchFolder, redo: Redo, blocks: CollectedBlocks) -> list[CorruptMapOutputError]:
    """Adds the blocks of all map outputs; returns the damage."""
    records = _records(folder, redo)
    damaged: list[CorruptMapOutputError] = []
    for start in range(0, len(records), _OUTPUTS_AT_ONCE):
        outputs, more = folder.map_outputs.read(
            records[start : start + _OUTPUTS_AT_ONCE],
            schema=BlockRows.schema(folder.shape.shuffled_schema),
            num_partitions=folder.plan.num_partitions,
            hash_partitions=folder.plan.hash_partitions,
        )
        damaged += more
        for output in () if damaged else outputs:
            blocks.add(output)
    return damaged


def _records(folder: BatchFolder, redo: Redo) -> Sequence[MapOutputRecord]:
    """Records of all planned map tasks; outputs that an earlier try voided are made."""
    map_ids = range(folder.plan.num_map_tasks)
    try:
        return folder.map_outputs.records(map_ids)
    except MissingMapOutputError as error:
        generations = folder.map_outputs.missing(error.map_ids)
        if not all(generations.values()):
            # Some have never been made: that is a phase's work, not a repair.
            raise
        redo(list(generations))
        return folder.map_outputs.records(map_ids)


def until_readable(
    folder: BatchFolder,
    coalesce_plan: CoalescePlan,
    read: Callable[[CoalescePlan, int], Sequence[CorruptMapOutputError]],
    redo: Redo,
    *,
    epoch: int | None = None,
) -> int:
    """Lets a phase read map outputs until none proves damaged; damaged ones are made again in between.

    Args:
        read: reads what is left in an epoch; voids damaged map outputs and returns their damage.
        epoch: of the extents, if they were just written; None: it is looked up.

    Returns:
        The epoch of the extents in which all map outputs could be read.

    Raises:
        MissingMapOutputError: a planned map task has no valid output.
    """
    trouble: IcefloeError | None = None
    rounds = 0
    while rounds < _MAX_ROUNDS:
        rounds += 1
        if epoch is None:
            epoch = _epoch(folder, redo)
        are_gone = isinstance(trouble, ReduceInputGoneError) and trouble.are_extents
        # Whoever finds extents need not read the small files of all map outputs again: a reader checks every block.
        if are_gone or folder.store.size(extents_key(epoch)) is None:
            with read_all_blocks(folder, redo) as blocks:
                epoch = blocks.epoch
                blocks.write(folder.store, extents_key(epoch), coalesce_plan.all_ranges)
        try:
            damaged = read(coalesce_plan, epoch)
        except ReduceInputGoneError as gone:
            # Both follow from the map outputs, which are as they were: so is the epoch. Extents are written above, and
            # moves by the reader itself before its ranges.
            trouble = gone
            continue
        if not damaged:
            return epoch
        redo(_map_ids(damaged))
        if all(damage.nodes is not None for damage in damaged):
            # Nodes say nothing about the store. What they lost is in the store now, so these losses end.
            rounds -= 1
        trouble, epoch = damaged[0], None
    raise _unreliable_store(folder) from trouble


def _map_ids(damaged: Sequence[CorruptMapOutputError]) -> list[int]:
    """One task may find several map outputs damaged."""
    return sorted({map_id for damage in damaged for map_id, _ in damage.outputs})


def _epoch(folder: BatchFolder, redo: Redo) -> int:
    map_ids = range(folder.plan.num_map_tasks)
    states = folder.map_outputs.states(map_ids)
    # An output may have been voided, or its record lost, since it was written.
    if any(state.record is None for state in states):
        redo(())
        return sum(record.generation for record in folder.map_outputs.records(map_ids))
    return sum(state.generation for state in states)


def void_damaged(folder: BatchFolder, damaged: Sequence[CorruptMapOutputError]) -> None:
    """Voids map outputs, so that their next generation may commit."""
    for damage in damaged:
        for map_id, generation in damage.outputs:
            folder.map_outputs.void(map_id, generation, damage.reason)


def _unreliable_store(folder: BatchFolder) -> TerminalError:
    """The store does not keep what is written to it."""
    return TerminalError(
        f"files of the shuffle of batch {folder.plan.batch_number} were found damaged {_MAX_ROUNDS} times in a row: "
        f"the store {folder.store.url} loses data; check its disks, then run the batch again",
        url=folder.store.url,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Coalesced:
    """The reduce ranges, and the epoch of the extents they fetch first."""

    plan: CoalescePlan
    epoch: int


def coalesce_map_outputs(
    inputs: MapInputs, tally: PhaseTally, *, new_name: Callable[[], str] = new_attempt
) -> Coalesced:
    """Plans the reduce ranges of a batch, or finds them.

    A damaged map output is made again here: ranges planned without it could skip its rows.

    Raises:
        UnfinishedTasksError: a planned map task has no valid output.
    """
    folder, plan = inputs.folder, inputs.folder.plan

    def redo(map_ids: Sequence[int]) -> None:
        tally.record.map_tasks_run_again += len(map_ids)
        tally.record.map_outputs_void += len(map_ids)
        for map_id, generation in folder.map_outputs.missing(map_ids).items():
            write_map_output(inputs, map_id, attempt=new_name(), generation=generation)

    try:
        with read_all_blocks(folder, redo) as blocks:
            with says_remedy(folder.store):
                created = CoalescePlan.of(
                    blocks.partition_bytes,
                    num_partitions=plan.num_partitions,
                    target_size_bytes=plan.spec.target_size_bytes,
                    min_ranges=plan.spec.cores,
                ).created(folder.store, COALESCE_PLAN)
            # Extents of the ranges that were created, which may be those of an earlier attempt.
            blocks.write(folder.store, extents_key(blocks.epoch), created.all_ranges)
    except MissingMapOutputError as error:
        tally.record.map_outputs_missing += len(error.map_ids)
        raise UnfinishedTasksError.at(
            Phase.SHUFFLE_WRITE, error.sentence, then="only those map tasks run again"
        ) from error
    logger.info("batch %d: %d ranges of %d partitions", plan.batch_number, len(created.ranges), plan.num_partitions)
    return Coalesced(plan=created, epoch=blocks.epoch)


def load_coalesce_plan(folder: BatchFolder) -> CoalescePlan:
    """The reduce ranges; `BatchFileMissingError` if there are none."""
    found = find_batch_document(CoalescePlan, folder.store, COALESCE_PLAN, what="the coalesce plan")
    if found is None:
        raise BatchFileMissingError(
            f"the coalesce plan {folder.store.url}/{COALESCE_PLAN} is missing: run coalesce first", url=folder.store.url
        )
    return found
