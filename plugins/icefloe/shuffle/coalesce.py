"""Coalescing: reduce partitions merged into ranges of about the target size.

The rules are those of Spark's adaptive execution (ShufflePartitionsUtil), on exact sizes: neighbours are merged while
their sum stays within the target, the target shrinks until there is work for every core but not below a minimum, a
range that came out small joins a neighbour, and empty partitions cost no task.

A partition larger than a range is cut into ranges of its parts, if map tasks divided it (`divided_partitions`).
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from icefloe.shuffle.divided_partitions import MIN_RANGE_BYTES, wanted_range_bytes
from icefloe.shuffle.reduce_ranges import ReduceRange

__all__ = ["coalesce"]

_SMALL_RANGE_FACTOR: Final = 0.2
_MERGED_RANGE_FACTOR: Final = 1.2


def coalesce(
    partition_bytes: NDArray[np.int64],
    *,
    target_size_bytes: int,
    min_ranges: int,
    min_range_bytes: int = MIN_RANGE_BYTES,
    part_bytes: Mapping[int, NDArray[np.int64]] | None = None,
) -> tuple[ReduceRange, ...]:
    """The ranges of a shuffle: each non-empty reduce partition is in exactly one; empty ones start and end none.

    A divided partition may be cut into several ranges, which have all its parts together.

    Args:
        partition_bytes: bytes of each reduce partition, summed over all map outputs.
        target_size_bytes: bytes that a range should hold; a larger partition that is not divided is a range of its own.
        min_ranges: least number of ranges to make, if there is work for them.
        min_range_bytes: the target is not lowered below this to reach ``min_ranges``.
        part_bytes: of reduce partitions that map outputs divided, the bytes of each part. The rest of such a partition
            is in map outputs that did not divide it, and every range of its parts reads that too.

    >>> [(r.start, r.stop) for r in coalesce(np.array([0, 5, 4, 0, 9, 1, 0]), target_size_bytes=10, min_ranges=1)]
    [(1, 3), (4, 6)]
    >>> hot = {1: np.full(64, 2)}
    >>> [(r.start, r.stop, r.parts) for r in
    ...  coalesce(np.array([9, 128, 9]), target_size_bytes=64, min_ranges=1, part_bytes=hot)]
    [(0, 1, None), (1, 2, (0, 32)), (1, 2, (32, 64)), (2, 3, None)]
    """
    if target_size_bytes < 1 or min_ranges < 1:
        raise ValueError(
            f"expected a target of 1 byte or more and 1 range or more, found {target_size_bytes}, {min_ranges}"
        )
    partitions = _Partitions(partition_bytes, part_bytes or {})
    floor = max(1, min(min_range_bytes, target_size_bytes))
    target = target_size_bytes
    ranges = partitions.ranges(target)
    # Of 5 5 5 5, a target of 20 makes one range. If 3 are wanted, the next target is 7, the even share, and makes 4.
    # The even share may still make too few if the sizes differ much, so the target goes on shrinking.
    while len(ranges) < min(min_ranges, partitions.most_ranges) and target > floor:
        share = wanted_range_bytes(
            partitions.total_bytes, target_size_bytes=target // 2, min_ranges=min_ranges, min_range_bytes=floor
        )
        target = max(floor, share)
        ranges = partitions.ranges(target)
    return tuple(
        ReduceRange(range_id=number, start=start, stop=stop, parts=parts)
        for number, (start, stop, parts) in enumerate(ranges)
    )


class _Partitions:
    """The non-empty reduce partitions of a shuffle."""

    def __init__(self, partition_bytes: NDArray[np.int64], part_bytes: Mapping[int, NDArray[np.int64]]) -> None:
        self._filled: list[int] = np.flatnonzero(partition_bytes).tolist()
        self._sizes: list[int] = partition_bytes[self._filled].tolist()
        self._part_bytes = part_bytes
        self.total_bytes = sum(self._sizes)
        self.most_ranges = len(self._filled) + sum(
            int(np.count_nonzero(parts)) - 1 for parts in part_bytes.values() if parts.any()
        )

    def ranges(self, target: int) -> list[tuple[int, int, tuple[int, int] | None]]:
        """The ranges for a target: start, stop, and the parts of a range that has not all parts of its partition."""
        #   partition   0  1  2 (large, divided)  4  5
        #   ranges      '--'  '--'---'--'         '--'
        ranges: list[tuple[int, int, tuple[int, int] | None]] = []
        waiting: list[int] = []
        for position, (partition, size) in enumerate(zip(self._filled, self._sizes, strict=True)):
            cut = self._cut(partition, size, target)
            if len(cut) > 1:
                ranges += self._merged(waiting, target)
                waiting = []
                ranges += [(partition, partition + 1, parts) for parts in cut]
            else:
                waiting.append(position)
        return ranges + list(self._merged(waiting, target))

    def _merged(self, positions: list[int], target: int) -> Iterator[tuple[int, int, None]]:
        if positions:
            for first, last in _merge([self._sizes[position] for position in positions], target):
                yield self._filled[positions[first]], self._filled[positions[last - 1]] + 1, None

    def _cut(self, partition: int, size: int, target: int) -> list[tuple[int, int]]:
        """The parts of each range of a partition that is cut. None or one: it is not cut, and may share a range."""
        parts = self._part_bytes.get(partition)
        if parts is None or size <= _MERGED_RANGE_FACTOR * target:
            return []
        of_parts = int(parts.sum())
        shared = size - of_parts
        # Every range reads the shared bytes too. They are never more than half of what it reads.
        left = max(target - shared, shared)
        # Even shares, a part more for what greedy merging leaves; 5 ranges of 80 % rather than 4 full ones and a rest.
        num_ranges = max(1, -(-of_parts // left))
        share = -(-of_parts // num_ranges)
        return _merge(parts.tolist(), max(1, min(left, share + of_parts // len(parts))))


def _merge(sizes: list[int], target: int) -> list[tuple[int, int]]:
    """Neighbours merged while their sum stays within the target, as half-open positions in ``sizes``."""
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
    """Joins groups below a fifth of the target to a neighbour that stays within 1.2 targets."""
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
