"""Reduce ranges: reduce partitions that one task reads, merged to about the target size, once per batch.

The rules are those of Spark's adaptive execution (ShufflePartitionsUtil), on exact sizes: neighbours are merged while
their sum stays within the target, the target shrinks to a minimum until every core has work, a small range joins a
neighbour, and empty partitions cost no task.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, Self

import numpy as np
from numpy.typing import NDArray

from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.documents import Document, dump_document, load_document
from icefloe.shuffle.blocks import reduce_ids
from icefloe.storage.store import Store

__all__ = ["CoalescePlan"]


MIN_RANGE_BYTES: Final = 1 << 20
"""Spark's default of the same name: less is not worth a task, however many cores are idle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceRange(Document):
    """The reduce partitions ``start`` (inclusive) to ``stop`` (exclusive)."""

    range_id: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CoalescePlan(Document):
    """The document of a batch's reduce ranges, numbered from 0 in the order of their partitions.

    Attributes:
        hash_ranges: of the hash partitions, which are numbered on from the reduce partitions, as their ranges are.
    """

    version: Literal[1] = 1
    num_partitions: int
    target_size_bytes: int
    ranges: tuple[ReduceRange, ...]
    hash_ranges: tuple[ReduceRange, ...] = ()

    def __post_init__(self) -> None:
        stop = 0
        for number, each in enumerate(self.all_ranges):
            least = stop if number < len(self.ranges) else max(stop, self.num_partitions)
            if each.range_id != number or each.start < least:
                raise ValueError(f"range {each} is misnumbered, or overlaps the one before")
            stop = each.stop
        if self.ranges and self.ranges[-1].stop > self.num_partitions:
            raise ValueError(f"range {self.ranges[-1]} overlaps the hash partitions")

    @classmethod
    def of(
        cls, partition_bytes: NDArray[np.int64], *, num_partitions: int, target_size_bytes: int, min_ranges: int
    ) -> Self:
        """The ranges of a shuffle, from the bytes of its reduce partitions and then of its hash partitions."""
        of_rows, of_hashes = (
            coalesce(sizes, target_size_bytes=target_size_bytes, min_ranges=min_ranges)
            for sizes in np.split(partition_bytes, [num_partitions])
        )
        return cls(
            num_partitions=num_partitions,
            target_size_bytes=target_size_bytes,
            ranges=tuple(ReduceRange(range_id=at, start=start, stop=stop) for at, (start, stop) in enumerate(of_rows)),
            hash_ranges=tuple(
                ReduceRange(range_id=at, start=num_partitions + start, stop=num_partitions + stop)
                for at, (start, stop) in enumerate(of_hashes, len(of_rows))
            ),
        )

    def created(self, store: Store, key: str) -> "CoalescePlan":
        """Creates the document unless there is one; returns the one that counts: a zombie and its retry agree."""
        # Results and extents are named after range ids. With other ranges under the same ids, the results of a first
        # run would count for other rows.
        if store.create(key, dump_document(self)):
            return self
        return load_document(CoalescePlan, store.get(key), what=f"the coalesce plan {store.url}/{key}")

    def range_ids(self, identity_hashes: RowHashes) -> NDArray[np.int32]:
        """The range that each row is in; its reduce partition must have one."""
        starts = np.array([each.start for each in self.ranges])
        ids = reduce_ids(identity_hashes, self.num_partitions)
        return (np.searchsorted(starts, ids, side="right") - 1).astype(np.int32)

    @property
    def all_ranges(self) -> tuple[ReduceRange, ...]:
        """The ranges of reduce partitions and of hash partitions, by range id."""
        return self.ranges + self.hash_ranges


_SMALL_RANGE_FACTOR: Final = 0.2
_MERGED_RANGE_FACTOR: Final = 1.2


def coalesce(
    partition_bytes: NDArray[np.int64],
    *,
    target_size_bytes: int,
    min_ranges: int,
    min_range_bytes: int = MIN_RANGE_BYTES,
) -> list[tuple[int, int]]:
    """Half-open ranges of partitions: each non-empty one is in one range; empty ones end none.

    Args:
        target_size_bytes: of a range; a larger partition is a range of its own.
        min_range_bytes: the target is not lowered below this to reach ``min_ranges``.

    >>> coalesce(np.array([0, 5, 4, 0, 9, 1, 0]), target_size_bytes=10, min_ranges=1)
    [(1, 3), (4, 6)]
    """
    filled: list[int] = np.flatnonzero(partition_bytes).tolist()
    sizes: list[int] = partition_bytes[filled].tolist()
    floor = max(1, min(min_range_bytes, target_size_bytes))
    target = target_size_bytes
    groups = _merge(sizes, target)
    # Of 5 5 5 5, a target of 20 makes one range. If 3 are wanted, the next target is 7, the even share, and makes 4.
    # The even share may still make too few if the sizes differ much, so the target goes on shrinking.
    while len(groups) < min(min_ranges, len(sizes)) and target > floor:
        target = max(floor, min(target // 2, -(-sum(sizes) // min_ranges)))
        groups = _merge(sizes, target)
    return [(filled[first], filled[last - 1] + 1) for first, last in groups]


def _merge(sizes: list[int], target: int) -> list[tuple[int, int]]:
    """Half-open positions in ``sizes``."""
    starts: list[int] = []
    size = 0
    for position, each in enumerate(sizes):
        if not starts or size + each > target:
            starts.append(position)
            size = 0
        size += each
    groups = list(pairwise([*starts, len(sizes)]))
    return _join_small(groups, sizes, target)


def _join_small(groups: list[tuple[int, int]], sizes: list[int], target: int) -> list[tuple[int, int]]:
    """Groups below a fifth of the target join a neighbour that stays within 1.2 targets."""
    totals = [sum(sizes[first:last]) for first, last in groups]
    joined: list[tuple[int, int]] = []
    joined_totals: list[int] = []
    for group, total in zip(groups, totals, strict=True):
        # Either of the two may be the small one: a small range in front of a large one has no other neighbour to join.
        small = bool(joined) and min(total, joined_totals[-1]) < _SMALL_RANGE_FACTOR * target
        if small and total + joined_totals[-1] <= _MERGED_RANGE_FACTOR * target:
            joined[-1] = (joined[-1][0], group[1])
            joined_totals[-1] += total
        else:
            joined.append(group)
            joined_totals.append(total)
    return joined
