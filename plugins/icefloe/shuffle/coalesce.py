"""Coalescing: reduce partitions merged into ranges of about the target size.

The rules are those of Spark's adaptive execution (ShufflePartitionsUtil), on exact sizes: neighbours are merged while
their sum stays within the target, the target shrinks until there is work for every core but not below a minimum, a
range that came out small joins a neighbour, and empty partitions cost no task.
"""

from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from icefloe.shuffle.reduce_ranges import ReduceRange

__all__ = ["coalesce"]

_SMALL_RANGE_FACTOR: Final = 0.2
_MERGED_RANGE_FACTOR: Final = 1.2
_MIN_RANGE_BYTES: Final = 1 << 20
"""Spark's default of the same name: less is not worth a task, however many cores are idle."""


def coalesce(
    partition_bytes: NDArray[np.int64],
    *,
    target_size_bytes: int,
    min_ranges: int,
    min_range_bytes: int = _MIN_RANGE_BYTES,
) -> tuple[ReduceRange, ...]:
    """The ranges of a shuffle: each non-empty reduce partition is in exactly one; empty ones start and end none.

    Args:
        partition_bytes: bytes of each reduce partition, summed over all map outputs.
        target_size_bytes: bytes that a range should hold; a larger partition is a range of its own.
        min_ranges: least number of ranges to make, if there is work for them.
        min_range_bytes: the target is not lowered below this to reach ``min_ranges``.

    >>> [(r.start, r.stop) for r in coalesce(np.array([0, 5, 4, 0, 9, 1, 0]), target_size_bytes=10, min_ranges=1)]
    [(1, 3), (4, 6)]
    """
    if target_size_bytes < 1 or min_ranges < 1:
        raise ValueError(
            f"expected a target of 1 byte or more and 1 range or more, found {target_size_bytes}, {min_ranges}"
        )
    filled = np.flatnonzero(partition_bytes).tolist()
    sizes = partition_bytes[filled].tolist()
    floor = min(min_range_bytes, target_size_bytes)
    target = target_size_bytes
    groups = _merge(sizes, target)
    # Of 5 5 5 5, a target of 20 makes one range. If 3 are wanted, the next target is 7, the even share, and makes 4.
    # The even share may still make too few if the sizes differ much, so the target goes on shrinking.
    while len(groups) < min(min_ranges, len(sizes)) and target > max(floor, 1):
        target = max(floor, 1, min(target // 2, -(-sum(sizes) // min_ranges)))
        groups = _merge(sizes, target)
    return tuple(
        ReduceRange(range_id=number, start=filled[first], stop=filled[last - 1] + 1)
        for number, (first, last) in enumerate(groups)
    )


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
