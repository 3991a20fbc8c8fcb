"""The map outputs of a batch as a whole: read, checked by their small files, and repaired."""

from collections.abc import Callable, Sequence
from typing import Final

from icefloe.batch.context.batch_folder import BatchFolder
from icefloe.batch.reduce.range_extents import write_extents
from icefloe.errors import TerminalError
from icefloe.shuffle.blocks import block_schema
from icefloe.shuffle.committed_output import CommittedOutput, read_committed_outputs
from icefloe.shuffle.map_output_record import CorruptMapOutputError
from icefloe.shuffle.reduce_ranges import CoalescePlan

__all__ = ["until_readable", "void_damaged"]

_MAX_ROUNDS: Final = 4
"""Number of times that damaged map outputs are made again before the store is blamed."""


class UnreliableStoreError(TerminalError):
    """Map outputs were made again and again and found damaged each time."""

    url: str


def whole_outputs(folder: BatchFolder, redo: Callable[[Sequence[int]], None]) -> list[CommittedOutput]:
    """The output of every planned map task; damaged ones are voided and made again.

    Args:
        folder: folder of the batch.
        redo: runs map tasks.

    Raises:
        MissingMapOutputError: a planned map task has no valid output.
        UnreliableStoreError: map outputs that are made again are damaged too.
    """
    damaged: list[CorruptMapOutputError] = []
    for _ in range(_MAX_ROUNDS):
        outputs, damaged = read_committed_outputs(
            folder.store,
            folder.map_outputs.records(range(folder.plan.num_map_tasks)),
            schema=block_schema(folder.shuffled_form.schema),
            num_partitions=folder.plan.num_partitions,
        )
        if not damaged:
            return outputs
        void_damaged(folder, damaged)
        redo([damage.map_id for damage in damaged])
    raise _unreliable_store(folder) from damaged[0]


def until_readable(
    folder: BatchFolder,
    plan: CoalescePlan,
    redo: Callable[[Sequence[int]], None],
    read: Callable[[int], Sequence[CorruptMapOutputError]],
    *,
    outputs: Sequence[CommittedOutput] | None = None,
) -> int:
    """Reads map outputs range by range until none proves damaged; damaged ones are made again in between.

    Args:
        folder: folder of the batch.
        plan: its ranges.
        redo: runs map tasks.
        read: reads by the extents of an epoch; voids the map outputs that it finds damaged and returns their damage.
        outputs: map outputs of the batch, if they were just read; None: they are read here.

    Returns:
        The epoch of the extents in which all map outputs could be read.

    Raises:
        MissingMapOutputError: a planned map task has no valid output.
        UnreliableStoreError: map outputs that are made again are damaged too.
    """
    damaged: Sequence[CorruptMapOutputError] = ()
    for _ in range(_MAX_ROUNDS):
        if damaged:
            redo(sorted({damage.map_id for damage in damaged}))
            outputs = None
        epoch = write_extents(folder, plan, whole_outputs(folder, redo) if outputs is None else outputs)
        damaged = read(epoch)
        if not damaged:
            return epoch
    raise _unreliable_store(folder) from damaged[0]


def void_damaged(folder: BatchFolder, damaged: Sequence[CorruptMapOutputError]) -> None:
    """Voids damaged map outputs, so that their next generation may commit."""
    for damage in damaged:
        folder.map_outputs.void(damage.map_id, damage.generation, damage.reason)


def _unreliable_store(folder: BatchFolder) -> UnreliableStoreError:
    """The error of a store that does not keep what is written to it."""
    return UnreliableStoreError(
        f"map outputs of batch {folder.plan.batch_number} were found damaged {_MAX_ROUNDS} times in a row: the store "
        f"{folder.store.url} loses data; check its disks, then run the batch again",
        url=folder.store.url,
    )
