"""Row hashes found again among others: exactly, by all 128 bits."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from icefloe.changes.grouping import HashGroups
from icefloe.changes.row_hash.row_hashes import RowHashes

__all__ = ["HashIndex", "distinct_hashes"]

_BLOCK_ROWS: Final = 1 << 16
_BLOCK_PAIRS: Final = 1 << 18
"""Approximate number of candidates that are compared at a time; bounds the memory if each row has many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HashIndex:
    """Row hashes with a number each, laid out for look-ups.

    They fall into buckets by the upper bits of one lane. Hashes are evenly distributed, so a bucket holds one or none,
    and one look finds the hashes that a row may equal, without a search. Needs at most 28 bytes for each hash.

    Attributes:
        low: one lane, ascending.
        high: the other lane.
        numbers: the number of each hash; equal hashes may have several.
        starts: start of each bucket, and the end of the last.
    """

    low: NDArray[np.uint64]
    high: NDArray[np.uint64]
    numbers: NDArray[np.int32]
    starts: NDArray[np.int32]

    @classmethod
    def of(cls, hashes: RowHashes, numbers: NDArray[np.int32]) -> Self:
        """An index of hashes; a hash need not be given twice with the same number.

        Raises:
            ValueError: there is not one number for each hash.
        """
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
        """Every pair of a row and a number that have the same hash, as (positions of rows, numbers), part by part.

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
        """Pairs of a row and an entry of its bucket."""
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


def is_in(hashes: RowHashes, members: RowHashes) -> NDArray[np.bool_]:
    """Mask of the rows whose hash is among the members.

    >>> hashes, members = (RowHashes(np.zeros(2, np.uint64), np.array(low, np.uint64)) for low in ([1, 2], [2, 2]))
    >>> is_in(hashes, members).tolist()
    [False, True]
    """
    distinct = distinct_hashes(members)
    is_member = np.zeros(len(hashes), np.bool_)
    for rows, _ in HashIndex.of(distinct, np.zeros(len(distinct), np.int32)).matches(hashes):
        is_member[rows] = True
    return is_member


def _expand(
    rows: NDArray[np.int64], firsts: NDArray[np.int64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each row once for each of its entries, and the numbers of those entries."""
    # For firsts 4 and 9, counts 2 and 3:  rows a a b b b, entries 4 5 9 10 11.
    ends = np.cumsum(counts)
    return np.repeat(rows, counts), np.repeat(firsts - (ends - counts), counts) + np.arange(counts.sum())
