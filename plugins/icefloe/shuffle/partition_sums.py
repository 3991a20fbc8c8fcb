"""Sums of many statistics files, by reduce partition and change ordinal, from which any range takes its sums."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from icefloe.shuffle.ordinal_sums import OrdinalSums
from icefloe.shuffle.statistics_file import PartitionStatistics

_MASK: Final = np.uint64(0xFFFF_FFFF)
_HALF: Final = np.uint64(32)


class PartitionSums:
    """Adds up statistics; its size depends on partitions and ordinals, not on the number of map outputs.

    Args:
        num_partitions: reduce partitions.
    """

    def __init__(self, num_partitions: int) -> None:
        self._num_partitions = num_partitions
        self._ordinals: list[int] = []
        self._rows = np.zeros(0, np.int64)
        self._signed_counts = np.zeros(0, np.int64)
        # The hash sums in digits of 32 bits, lowest first: 2^32 map outputs fit before a digit overflows.
        self._digits = [np.zeros(0, np.uint64) for _ in range(4)]

    def add(self, statistics: PartitionStatistics) -> None:
        """Adds the statistics of one map output."""
        ordinals, places = np.unique(statistics.change_ordinals, return_inverse=True)
        cells = self._places(ordinals)[places] * self._num_partitions + statistics.reduce_ids
        # A map output has one entry for each partition and ordinal, so no cell comes twice and plain indexing adds.
        self._rows[cells] += statistics.rows
        self._signed_counts[cells] += statistics.signed_counts
        low, high = statistics.hash_low, statistics.hash_high
        for digit, more in zip(self._digits, (low & _MASK, low >> _HALF, high & _MASK, high >> _HALF), strict=True):
            digit[cells] += more

    def partition_rows(self) -> NDArray[np.int64]:
        """The rows of each reduce partition."""
        return self._rows.reshape(-1, self._num_partitions).sum(axis=0)

    def of(self, start: int, stop: int) -> tuple[OrdinalSums, ...]:
        """The sums per change ordinal of the reduce partitions ``start`` (inclusive) to ``stop`` (exclusive)."""
        found = []
        for place, ordinal in sorted(enumerate(self._ordinals), key=lambda each: each[1]):
            cells = slice(place * self._num_partitions + start, place * self._num_partitions + stop)
            rows = int(self._rows[cells].sum())
            if rows:
                digits = [sum(digit[cells].tolist()) << (32 * number) for number, digit in enumerate(self._digits)]
                found.append(
                    OrdinalSums(
                        change_ordinal=ordinal,
                        rows=rows,
                        signed_count=int(self._signed_counts[cells].sum()),
                        hash_sum=sum(digits) % (1 << 128),
                    )
                )
        return tuple(found)

    def _places(self, ordinals: NDArray[np.int64]) -> NDArray[np.int64]:
        """The place of each ordinal; new ones get the next."""
        new = [ordinal for ordinal in ordinals.tolist() if ordinal not in self._ordinals]
        if new:
            self._ordinals += new
            more = len(new) * self._num_partitions
            self._rows, self._signed_counts, *self._digits = (
                np.concatenate([each, np.zeros(more, each.dtype)])
                for each in (self._rows, self._signed_counts, *self._digits)
            )
        return np.array([self._ordinals.index(ordinal) for ordinal in ordinals.tolist()], np.int64)
