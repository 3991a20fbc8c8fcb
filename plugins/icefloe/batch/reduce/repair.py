"""The map outputs of a batch as a whole: read, checked by their small files, and repaired."""

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final, Protocol

from icefloe.batch.context.batch_folder import BatchFolder
from icefloe.batch.reduce.batch_extents import BatchExtents, ExtentsGoneError
from icefloe.batch.reduce.load_moves import MovesGoneError
from icefloe.errors import IcefloeError, TerminalError
from icefloe.shuffle.blocks import block_schema
from icefloe.shuffle.collected_blocks import CollectedBlocks
from icefloe.shuffle.committed_output import read_committed_outputs
from icefloe.shuffle.map_output_log import MissingMapOutputError
from icefloe.shuffle.map_output_record import CorruptMapOutputError, MapOutputRecord
from icefloe.shuffle.node_outputs import NodeOutputsLostError
from icefloe.shuffle.reduce_ranges import CoalescePlan
from icefloe.storage.local_folders import local_folders

__all__ = ["ReadsMapOutputs", "until_readable", "void_damaged"]

_MAX_ROUNDS: Final = 4
"""Number of times that damaged map outputs are made again before the store is blamed."""
_OUTPUTS_AT_ONCE: Final = 128
"""Their small files are in memory at the same time: 200 KiB each at 4,096 partitions, and blocks up to a limit."""


class UnreliableStoreError(TerminalError):
    """Map outputs, or what follows from them, were made again and again and found damaged each time."""

    url: str


class ReadsMapOutputs(Protocol):
    """A task that reads map outputs: coalesce, or the reduce tasks."""

    def read(self, coalesce_plan: CoalescePlan, epoch: int) -> Sequence[CorruptMapOutputError]:
        """Reads what is still to be read; voids the map outputs that it finds damaged and returns their damage.

        Raises:
            ExtentsGoneError: the extents of the epoch are gone.
            MovesGoneError: moves that an earlier read of this epoch left are gone.
        """

    def redo(self, map_ids: Sequence[int]) -> None:
        """Runs map tasks: the given ones, and perhaps others without an output."""


def read_all_blocks(folder: BatchFolder, redo: Callable[[Sequence[int]], None]) -> CollectedBlocks:
    """The blocks of every planned map task's output, which the caller closes; damaged outputs are made again.

    Args:
        folder: folder of the batch.
        redo: runs map tasks.

    Raises:
        MissingMapOutputError: a planned map task has no valid output.
        UnreliableStoreError: map outputs that are made again are damaged too.
        TransientError: local disk is full or broken.
    """
    damaged: list[CorruptMapOutputError] = []
    for _ in range(_MAX_ROUNDS):
        partitions = folder.plan.num_partitions + folder.plan.hash_partitions
        blocks = CollectedBlocks(partitions, disk=local_folders(os.environ)[0])
        with ExitStack() as unfinished:
            unfinished.enter_context(blocks)
            damaged = _collect(folder, redo, blocks)
            if not damaged:
                unfinished.pop_all()
                return blocks
        void_damaged(folder, damaged)
        redo(_map_ids(damaged))
    raise _unreliable_store(folder) from damaged[0]


def _collect(
    folder: BatchFolder, redo: Callable[[Sequence[int]], None], blocks: CollectedBlocks
) -> list[CorruptMapOutputError]:
    """Adds the blocks of all map outputs; returns the damage of those that are not whole."""
    records = _records(folder, redo)
    damaged: list[CorruptMapOutputError] = []
    for start in range(0, len(records), _OUTPUTS_AT_ONCE):
        outputs, more = read_committed_outputs(
            folder.store,
            records[start : start + _OUTPUTS_AT_ONCE],
            schema=block_schema(folder.shuffled_form.schema),
            num_partitions=folder.plan.num_partitions,
            hash_partitions=folder.plan.hash_partitions,
            most_block_bytes=blocks.embeddable_bytes,
        )
        damaged += more
        for output in () if damaged else outputs:
            blocks.add(output)
    return damaged


def _records(folder: BatchFolder, redo: Callable[[Sequence[int]], None]) -> Sequence[MapOutputRecord]:
    """The record of every planned map task; outputs that an earlier try voided, and did not make again, are made."""
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
    reader: ReadsMapOutputs,
    *,
    epoch: int | None = None,
) -> int:
    """Lets a task read map outputs until none proves damaged; damaged ones are made again in between.

    Args:
        folder: folder of the batch.
        coalesce_plan: its ranges.
        reader: reads, and runs map tasks again.
        epoch: epoch of the extents, if they were just written; None: it is looked up here.

    Returns:
        The epoch of the extents in which all map outputs could be read.

    Raises:
        MissingMapOutputError: a planned map task has no valid output.
        UnreliableStoreError: map outputs or extents that are made again are damaged too.
    """
    trouble: IcefloeError | None = None
    rounds = 0
    while rounds < _MAX_ROUNDS:
        rounds += 1
        if epoch is None:
            epoch = _epoch(folder, reader.redo)
        extents = BatchExtents(folder, epoch)
        # Whoever finds extents need not read the small files of all map outputs again: a reader checks every block.
        if isinstance(trouble, ExtentsGoneError) or not extents.are_written:
            with read_all_blocks(folder, reader.redo) as blocks:
                epoch = blocks.epoch
                BatchExtents(folder, epoch).write(coalesce_plan, blocks)
        try:
            damaged = reader.read(coalesce_plan, epoch)
        except (ExtentsGoneError, MovesGoneError) as gone:
            # Both follow from the map outputs, which are as they were: so is the epoch. Extents are written above, and
            # moves by the reader itself before its ranges.
            trouble = gone
            continue
        if not damaged:
            return epoch
        reader.redo(_map_ids(damaged))
        if all(isinstance(damage, NodeOutputsLostError) for damage in damaged):
            # Nodes say nothing about the store. What they lost is in the store now, so these losses end.
            rounds -= 1
        trouble, epoch = damaged[0], None
    raise _unreliable_store(folder) from trouble


def _map_ids(damaged: Sequence[CorruptMapOutputError]) -> list[int]:
    """The map tasks whose outputs are damaged: what one task finds may be about several."""
    return sorted({map_id for damage in damaged for map_id, _ in damage.outputs})


def _epoch(folder: BatchFolder, redo: Callable[[Sequence[int]], None]) -> int:
    """The sum of the generations of all map outputs, whichever have to be made again for it."""
    map_ids = range(folder.plan.num_map_tasks)
    states = folder.map_outputs.states(map_ids)
    # An output may have been voided, or its record lost, since it was written.
    if any(state.record is None for state in states):
        redo(())
        return sum(record.generation for record in folder.map_outputs.records(map_ids))
    return sum(state.generation for state in states)


def void_damaged(folder: BatchFolder, damaged: Sequence[CorruptMapOutputError]) -> None:
    """Voids damaged map outputs, so that their next generation may commit."""
    for damage in damaged:
        for map_id, generation in damage.outputs:
            folder.map_outputs.void(map_id, generation, damage.reason)


def _unreliable_store(folder: BatchFolder) -> UnreliableStoreError:
    """The error of a store that does not keep what is written to it."""
    return UnreliableStoreError(
        f"files of the shuffle of batch {folder.plan.batch_number} were found damaged {_MAX_ROUNDS} times in a row: "
        f"the store {folder.store.url} loses data; check its disks, then run the batch again",
        url=folder.store.url,
    )
