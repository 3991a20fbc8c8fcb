"""Reduce ranges: reduce partitions that one task reads, merged to about the target size, once per batch.

The rules are those of Spark's adaptive execution (ShufflePartitionsUtil), on exact sizes: neighbours are merged while
their sum stays within the target, the target shrinks to a minimum until every core has work, a small range joins a
neighbour, and empty partitions cost no task.

A partition larger than a range is cut into ranges of its parts, if map tasks divided it into 64 parts (`BlockNumbers`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Final, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict

from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.documents import STRICT, dump_document, load_document
from icefloe.storage.store import Store

__all__ = ["BatchSizes", "CoalescePlan", "coalesce", "reduce_ids"]


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
    """The numbers of a map output's blocks: 64 for a divided partition, one for any other.

    The first six bits of the upper half of its identity hash are a row's part. So rows of an
    identity are in one part, and parts follow each other in the order of delivery.

        reduce partition    0     1 (divided)                2
        block               0     1    2    3   ..   64      65
        part                -     0    1    2   ..   63      -
    """

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceRange:
    """The reduce partitions ``start`` (inclusive) to ``stop`` (exclusive).

    Attributes:
        parts: of one divided partition, the first and the one after the last; None: all rows.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    range_id: int
    start: int
    stop: int
    parts: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CoalescePlan:
    """The document of a batch's reduce ranges, numbered from 0 in the order of their partitions and parts."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    version: Literal[1] = 1
    num_partitions: int
    target_size_bytes: int
    ranges: tuple[ReduceRange, ...]
    hash_ranges: tuple[ReduceRange, ...] = ()

    def __post_init__(self) -> None:
        stop, stop_part = 0, NUM_PARTS
        for number, each in enumerate(self.ranges):
            if each.range_id != number or each.start < stop or each.stop > self.num_partitions:
                raise ValueError(f"range {each} is misnumbered, overlaps the one before, or ends past the partitions")
            # The parts of a partition go from range to range: 0 to 20, 20 to 41, 41 to 64.
            first_part, next_part = each.parts or (0, NUM_PARTS)
            if first_part != stop_part % NUM_PARTS or (first_part and each.start != stop):
                raise ValueError(f"range {each} does not begin where the parts of the range before end")
            stop, stop_part = each.stop - (next_part < NUM_PARTS), next_part
        if stop_part != NUM_PARTS:
            raise ValueError(f"the last range ends at part {stop_part} of {NUM_PARTS}")
        stop = self.num_partitions
        for number, each in enumerate(self.hash_ranges, len(self.ranges)):
            if each.range_id != number or each.start < stop or each.parts is not None:
                raise ValueError(f"range {each} of hash partitions is misnumbered, has parts, or begins too early")
            stop = each.stop

    @classmethod
    def of(
        cls,
        ranges: tuple[ReduceRange, ...],
        *,
        num_partitions: int,
        target_size_bytes: int,
        hash_ranges: tuple[ReduceRange, ...] = (),
    ) -> Self:
        """The document of ranges; hash ranges and hash partitions are numbered from 0 here."""
        return cls(
            num_partitions=num_partitions,
            target_size_bytes=target_size_bytes,
            ranges=ranges,
            hash_ranges=tuple(
                ReduceRange(
                    range_id=len(ranges) + each.range_id,
                    start=num_partitions + each.start,
                    stop=num_partitions + each.stop,
                )
                for each in hash_ranges
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
        places = reduce_ids(identity_hashes, self.num_partitions).astype(np.int64) * NUM_PARTS
        starts = np.array([each.start * NUM_PARTS + (each.parts or (0,))[0] for each in self.ranges])
        return (np.searchsorted(starts, places + part_ids(identity_hashes), side="right") - 1).astype(np.int32)

    @property
    def has_parts(self) -> bool:
        """True if some ranges are of parts of a partition."""
        return any(each.parts is not None for each in self.ranges)

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
    part_bytes: Mapping[int, NDArray[np.int64]] | None = None,
) -> tuple[ReduceRange, ...]:
    """The ranges of a shuffle: each non-empty reduce partition is in one; empty ones end none.

    A divided partition may be cut into several ranges, which have all its parts together.

    Args:
        target_size_bytes: of a range; a larger partition that is not divided is a range of its own.
        min_range_bytes: the target is not lowered below this to reach ``min_ranges``.
        part_bytes: bytes of each part of divided partitions, whose ranges also read the rest of the partition.

    >>> [(r.start, r.stop) for r in coalesce(np.array([0, 5, 4, 0, 9, 1, 0]), target_size_bytes=10, min_ranges=1)]
    [(1, 3), (4, 6)]
    >>> hot = {1: np.full(64, 2)}
    >>> [(r.start, r.stop, r.parts) for r in
    ...  coalesce(np.array([9, 128, 9]), target_size_bytes=64, min_ranges=1, part_bytes=hot)]
    [(0, 1, None), (1, 2, (0, 32)), (1, 2, (32, 64)), (2, 3, None)]
    """
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
    def __init__(self, partition_bytes: NDArray[np.int64], part_bytes: Mapping[int, NDArray[np.int64]]) -> None:
        self._filled: list[int] = np.flatnonzero(partition_bytes).tolist()
        self._sizes: list[int] = partition_bytes[self._filled].tolist()
        self._part_bytes = part_bytes
        self.total_bytes = sum(self._sizes)
        self.most_ranges = len(self._filled) + sum(
            int(np.count_nonzero(parts)) - 1 for parts in part_bytes.values() if parts.any()
        )

    def ranges(self, target: int) -> list[tuple[int, int, tuple[int, int] | None]]:
        """Start, stop and parts; None for whole partitions."""
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
        """None or one: it is not cut, and may share a range."""
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
