"""The documents by which reduce tasks fetch: the extents of each range and epoch of the map outputs."""

from collections.abc import Sequence

from icefloe.batch.batch_keys import extents_key
from icefloe.batch.context.batch_folder import BatchFolder, load_batch_document
from icefloe.documents import dump_document
from icefloe.errors import TransientError
from icefloe.shuffle.committed_output import CommittedOutput
from icefloe.shuffle.extents import RangeExtents, plan_extents
from icefloe.shuffle.reduce_ranges import CoalescePlan
from icefloe.storage.parallel import map_parallel
from icefloe.storage.store import KeyMissingError

__all__ = ["load_extents"]


def write_extents(folder: BatchFolder, plan: CoalescePlan, outputs: Sequence[CommittedOutput]) -> int:
    """Writes the extents that each range fetches from these generations of the map outputs.

    Returns:
        The epoch of the extents: the sum of the generations. It grows whenever a generation is voided.
    """
    # Generations only grow, so what is made again after a void has documents of its own, and none that exists is
    # changed.
    epoch = sum(output.record.generation for output in outputs)

    def write(extents: RangeExtents) -> None:
        folder.store.create(extents_key(epoch, extents.range_id), dump_document(extents))

    map_parallel(write, plan_extents(plan.ranges, outputs), at_once=folder.store.requests_at_once)
    return epoch


def load_extents(folder: BatchFolder, range_id: int, epoch: int) -> RangeExtents:
    """The extents that a range fetches in an epoch.

    Raises:
        TransientError: they are gone.
        TerminalError: they were written by another release, or are damaged.
    """
    key = extents_key(epoch, range_id)
    try:
        return load_batch_document(RangeExtents, folder.store, key, what="the extents")
    except KeyMissingError as cause:
        raise TransientError(
            f"the extents {folder.store.url}/{key} are gone, which coalesce had written: run again, the next try of "
            "this task writes them once more",
            url=folder.store.url,
            key=key,
        ) from cause
