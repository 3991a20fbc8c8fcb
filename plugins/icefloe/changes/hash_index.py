"""Row hashes looked up: an index of many, and slices that fit into memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from icefloe.changes.consolidate import HashGroups
from icefloe.changes.row_hash.row_hashes import RowHashes

__all__ = ["HashIndex", "HashSlice", "distinct_hashes"]


_MAX_BITS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class HashSlice:
    """The hashes whose first ``bits`` bits are ``number``; all hashes if ``bits`` is 0.

    Slices in the order of their numbers hold the hashes in ascending order, and equal hashes are in one slice.
    """

    bits: int = 0
    number: int = 0

    @staticmethod
    def slices(at_least: int) -> "list[HashSlice]":
        """At least this many slices, a power of two, that cover every hash once.

        >>> [(each.bits, each.number) for each in HashSlice.slices(3)]
        [(2, 0), (2, 1), (2, 2), (2, 3)]
        """
        bits = (max(at_least, 1) - 1).bit_length()
        return [HashSlice(bits=bits, number=number) for number in range(1 << bits)]

    @property
    def is_whole(self) -> bool:
        """True if it holds every hash."""
        return self.bits == 0

    def positions(self, hashes: RowHashes) -> NDArray[np.int64]:
        """Positions of the hashes of this slice, ascending."""
        if self.is_whole:
            return np.arange(len(hashes))
        # The upper bits, because a slice has to cut across everything else that is made of bits of a hash: reduce
        # partitions are its lower bits, buckets of a hash index the upper bits of the lower half. By those, a slice
        # would hold all rows of a partition or none, and leave nearly all buckets empty.
        return np.flatnonzero(hashes.high >> np.uint64(_MAX_BITS - self.bits) == np.uint64(self.number))


_BLOCK_ROWS: Final = 1 << 16
_BLOCK_PAIRS: Final = 1 << 18
"""Approximate number of candidates that are compared at a time; bounds the memory if each row has many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HashIndex:
    """Row hashes with a number each, laid out for look-ups.

    A bucket, by a lane's upper bits, holds about one hash: one look finds equal ones. Needs at most 28 bytes for each
    hash.

    Attributes:
        numbers: the number of each hash; equal hashes may have several.
    """

    low: NDArray[np.uint64]
    high: NDArray[np.uint64]
    numbers: NDArray[np.int32]
    starts: NDArray[np.int32]

    @classmethod
    def of(cls, hashes: RowHashes, numbers: NDArray[np.int32]) -> Self:
        """An index of hashes; a hash need not be given twice with the same number."""
        if len(hashes) != len(numbers):
            raise ValueError(f"one number per hash was expected, found {len(numbers)} for {len(hashes)}")
        order = np.argsort(hashes.low)
        low = hashes.low[order]
        bits = max(len(low).bit_length(), 1)
        sizes = np.bincount((low >> np.uint64(64 - bits)).view(np.int64), minlength=1 << bits)
        starts = np.zeros(len(sizes) + 1, np.int32)
        np.cumsum(sizes, out=starts[1:])
        return cls(low=low, high=hashes.high[order], numbers=numbers[order], starts=starts)

    @property
    def nbytes(self) -> int:
        """Bytes that it takes in memory."""
        return self.low.nbytes + self.high.nbytes + self.numbers.nbytes + self.starts.nbytes

    def matches(self, hashes: RowHashes) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int32]]]:
        """Every pair of a row and a number with one hash, as (positions, numbers), part by part.

        >>> hashes = RowHashes(np.zeros(3, np.uint64), np.array([7, 8, 9], np.uint64))
        >>> index = HashIndex.of(hashes.take(np.array([2, 0, 2])), np.array([10, 11, 12], np.int32))
        >>> [[part.tolist() for part in parts] for parts in index.matches(hashes)]
        [[[0, 2, 2], [11, 10, 12]]]
        """
        for start in range(0, len(hashes), _BLOCK_ROWS):
            for rows, entries in self._candidates(hashes.low[start : start + _BLOCK_ROWS]):
                rows += start
                same = self.low[entries] == hashes.low[rows]
                same &= self.high[entries] == hashes.high[rows]
                hits = np.flatnonzero(same)
                if len(hits):
                    yield rows[hits], self.numbers[entries[hits]]

    def _candidates(self, lane: NDArray[np.uint64]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        bits = (len(self.starts) - 1).bit_length() - 1
        buckets = (lane >> np.uint64(64 - bits)).view(np.int64)
        firsts = self.starts[buckets].astype(np.int64)
        counts = self.starts[buckets + 1] - firsts
        rows = np.flatnonzero(counts)
        firsts, counts = firsts[rows], counts[rows]
        stops = np.cumsum(counts)
        total = int(stops[-1]) if len(stops) else 0
        # One hash may have any number of entries (an identity with a million rows), so memory is bounded by counting
        # pairs and not rows. Cuts are between rows.
        cuts = np.searchsorted(stops, np.arange(_BLOCK_PAIRS, total, _BLOCK_PAIRS))
        for first, last in pairwise([0, *cuts.tolist(), len(rows)]):
            yield _expand(rows[first:last], firsts[first:last], counts[first:last])


def distinct_hashes(hashes: RowHashes) -> RowHashes:
    """Each hash once, in no particular order."""
    groups = HashGroups.of(hashes)
    return hashes.take(groups.order[groups.starts])


def _expand(
    rows: NDArray[np.int64], firsts: NDArray[np.int64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each row once per entry, and the entries' numbers."""
    # For firsts 4 and 9, counts 2 and 3:  rows a a b b b, entries 4 5 9 10 11.
    ends = np.cumsum(counts)
    return np.repeat(rows, counts), np.repeat(firsts - (ends - counts), counts) + np.arange(counts.sum())
