"""Reduce partitions: that of a row, and hot ones, which a map output keeps as 64 blocks.

Rows are divided by the first six bits of their identity hash's upper half. So all rows of an identity are in one
part, and parts follow each other in the order of delivery.

    reduce partition    0     1 (divided)                2
    block               0     1    2    3   ..   64      65
    part                -     0    1    2   ..   63      -
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from icefloe.changes.row_hash.row_hashes import RowHashes

__all__ = ["BatchSizes", "reduce_ids"]


def reduce_ids(identity_hashes: RowHashes, num_partitions: int) -> NDArray[np.int32]:
    """The identity hash (row hash without an identity) modulo the number of partitions."""
    return identity_hashes.modulo(num_partitions).astype(np.int32, copy=False)


def order_by_reduce_id(ids: NDArray[np.int32], num_partitions: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row positions by reduce partition, stable, and the rows of each partition.

    >>> order = order_by_reduce_id(np.array([2, 0, 2, 0], np.int32), 3)
    >>> [part.tolist() for part in order]
    [[1, 3, 0, 2], [2, 0, 2]]
    """
    if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < num_partitions:
        raise ValueError(f"reduce ids lie in [0, {num_partitions}), found {ids.min()} to {ids.max()}")
    counts = np.bincount(ids, minlength=num_partitions)
    # NumPy's stable sort is a radix sort for 16 bits and a merge sort, five times slower, above.
    sortable = ids.astype(np.uint16) if num_partitions <= 1 << 16 else ids
    return np.argsort(sortable, kind="stable"), counts


NUM_PARTS: Final = 64
WHOLE: Final = NUM_PARTS
"""Stands for a part where a block has a whole reduce partition."""
MIN_RANGE_BYTES: Final = 1 << 20
"""Spark's default of the same name: less is not worth a task, however many cores are idle."""
_PART_SHIFT: Final = np.uint64(64 - (NUM_PARTS.bit_length() - 1))
_LEAST_ROWS: Final = 16 * NUM_PARTS
_MOST_DIVIDED: Final = 64
"""Hot partitions are few; this bounds the blocks of a map output if all are large."""
_COMPRESSION: Final = 4
"""Ranges are measured by compressed bytes, and rows before that; dividing late costs more than dividing early."""


def wanted_range_bytes(
    total_bytes: int, *, target_size_bytes: int, min_ranges: int, min_range_bytes: int = MIN_RANGE_BYTES
) -> int:
    """The most bytes that a range should hold: the target, or an even share to reach ``min_ranges``.

    >>> wanted_range_bytes(1 << 30, target_size_bytes=1 << 26, min_ranges=64) >> 20
    16
    """
    return max(1, min(target_size_bytes, max(min_range_bytes, -(-total_bytes // min_ranges))))


def part_ids(identity_hashes: RowHashes) -> NDArray[np.uint8]:
    """The part of each row, should its reduce partition be divided.

    >>> part_ids(RowHashes(np.array([0, 1 << 58, (1 << 64) - 1], np.uint64), np.zeros(3, np.uint64))).tolist()
    [0, 1, 63]
    """
    return (identity_hashes.high >> _PART_SHIFT).astype(np.uint8)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockNumbers:
    """The numbers of a map output's blocks: 64 for a divided partition, one for any other."""

    num_partitions: int
    divided: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if sorted({*self.divided}) != [*self.divided] or any(
            not 0 <= each < self.num_partitions for each in self.divided
        ):
            raise ValueError(
                f"divided partitions ascend from 0 to {self.num_partitions} (exclusive), found {self.divided}"
            )

    def __len__(self) -> int:
        return self.num_partitions + (NUM_PARTS - 1) * len(self.divided)

    def firsts(self) -> NDArray[np.int64]:
        """The first block of each reduce partition, int64.

        >>> BlockNumbers(num_partitions=4, divided=(1,)).firsts().tolist()
        [0, 1, 65, 66]
        """
        if not self.divided:
            return np.arange(self.num_partitions)
        counts = self._counts()
        return np.cumsum(counts) - counts

    def reduce_ids(self) -> NDArray[np.int64]:
        numbers = np.arange(self.num_partitions)
        return np.repeat(numbers, self._counts()) if self.divided else numbers

    def parts(self) -> NDArray[np.uint8]:
        """`WHOLE` if its reduce partition is not divided."""
        parts = np.full(len(self), WHOLE, np.uint8)
        for first in self.firsts()[[*self.divided]].tolist() if self.divided else ():
            parts[first : first + NUM_PARTS] = np.arange(NUM_PARTS)
        return parts

    def of_rows(self, reduce_ids: NDArray[np.int32], parts: NDArray[np.uint8]) -> NDArray[np.int32]:
        """The block of each row.

        >>> numbers = BlockNumbers(num_partitions=4, divided=(1,))
        >>> numbers.of_rows(np.array([0, 1, 1, 3], np.int32), np.array([9, 0, 63, 9], np.uint8)).tolist()
        [0, 1, 64, 66]
        """
        if not self.divided:
            return reduce_ids
        is_divided = np.zeros(self.num_partitions, np.bool_)
        is_divided[[*self.divided]] = True
        return (self.firsts()[reduce_ids] + np.where(is_divided[reduce_ids], parts, 0)).astype(np.int32)

    def _counts(self) -> NDArray[np.int64]:
        counts = np.ones(self.num_partitions, np.int64)
        counts[[*self.divided]] = NUM_PARTS
        return counts


class BatchSizes(NamedTuple):
    """The sizes of a batch by which a map task recognizes hot partitions.

    Attributes:
        target_size_bytes: compressed bytes of a range.
        cores: the least number of ranges, if there is work for them.
    """

    num_map_tasks: int
    target_size_bytes: int
    cores: int


def hot_partitions(sizes: BatchSizes, rows: NDArray[np.int64], size_bytes: int) -> tuple[int, ...]:
    """The partitions, ascending, larger than a range if all tasks have rows like these."""
    total = size_bytes * sizes.num_map_tasks
    most = wanted_range_bytes(total, target_size_bytes=_COMPRESSION * sizes.target_size_bytes, min_ranges=sizes.cores)
    is_hot = (rows * (total / max(1, int(rows.sum()))) > most) & (rows >= _LEAST_ROWS)
    largest_first = np.argsort(-rows, kind="stable")
    return tuple(sorted(largest_first[is_hot[largest_first]][:_MOST_DIVIDED].tolist()))
