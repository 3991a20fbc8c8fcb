"""The extents of each range, by which reduce tasks fetch, for an epoch of the map outputs."""

import os

import numpy as np

from icefloe.batch.batch_keys import extents_key
from icefloe.batch.context.batch_folder import BatchFolder, says_remedy
from icefloe.errors import TransientError
from icefloe.shuffle.coalesce import CoalescePlan
from icefloe.shuffle.extents import CollectedBlocks, RangeExtents
from icefloe.shuffle.extents_file import CorruptExtentsError, StoredExtents, store_extents
from icefloe.storage.local_folders import local_folders
from icefloe.storage.store import KeyMissingError, RangeMissingError

__all__ = ["BatchExtents"]


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
    def are_written(self) -> bool:
        """True if there are extents; reading shows if they are whole."""
        return self._folder.store.size(self._key) is not None

    def write(self, coalesce_plan: CoalescePlan, blocks: CollectedBlocks) -> None:
        """Writes the extents from the blocks of this epoch."""
        disk = local_folders(os.environ)[0]
        store_extents(
            self._folder.store,
            self._key,
            blocks.extents(coalesce_plan.all_ranges),
            blocks.files,
            has_parts=coalesce_plan.has_parts,
            has_embedded=blocks.has_embedded,
            disk=disk,
        )

    @property
    def rows(self) -> int:
        """Rows of all ranges; see `of`."""
        return self._open().head.rows

    @property
    def hash_range_ids(self) -> list[int]:
        """Ids of the ranges of hash partitions; see `of`."""
        return np.flatnonzero(self._open().head.ranges["start"] >= self._folder.plan.num_partitions).tolist()

    def of(self, range_id: int) -> RangeExtents:
        """The extents of one range; `ReduceInputGoneError` if they are gone or damaged."""
        try:
            return self._open().of(range_id)
        except (KeyMissingError, RangeMissingError, CorruptExtentsError) as cause:
            raise self._gone() from cause

    def _open(self) -> StoredExtents:
        if self._opened is None:
            try:
                with says_remedy(self._folder.store):
                    self._opened = StoredExtents.open(self._folder.store, self._key)
            except (KeyMissingError, CorruptExtentsError) as cause:
                raise self._gone() from cause
        return self._opened

    def _gone(self) -> ReduceInputGoneError:
        url = self._folder.store.url
        return ReduceInputGoneError(
            f"the extents {url}/{self._key}, which coalesce wrote, are gone or damaged: run again, the next try "
            "of this task writes them once more",
            url=url,
            key=self._key,
            are_extents=True,
        )
