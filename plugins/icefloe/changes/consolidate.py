"""Consolidation: rows grouped by all 128 bits of their hash, weights of equal rows added up, zeros dropped."""

from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from icefloe.changes.row_hash.row_hashes import RowHashes

__all__ = ["HashGroups", "consolidate", "surviving_rows"]

_Number = TypeVar("_Number", bound=np.integer)
_GAMMA: Final = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True, kw_only=True)
class HashGroups:
    """Equal rows side by side: ``order`` holds positions, ascending within a group; groups begin at ``starts``."""

    order: NDArray[np.int64]
    starts: NDArray[np.int64]

    @staticmethod
    def of(hashes: RowHashes, change_ordinals: NDArray[np.int32] | None = None) -> "HashGroups":
        """Groups rows with the same hash, and with the same change ordinal if given.

        One stable sort by one lane, then a proof that equal lanes are equal rows; otherwise a sort by everything. Needs
        about 40 bytes per row in addition to the hashes.
        """
        key = hashes.low
        if change_ordinals is not None:
            if len(change_ordinals) and change_ordinals.min() == change_ordinals.max():
                change_ordinals = None
            else:
                # The ordinal moves the key, so that one sort of words separates ordinals, too. Different rows that meet
                # in a key by chance are as unlikely as before, and are found below.
                key = key + change_ordinals.astype(np.uint64) * _GAMMA
        groups = _runs(np.argsort(key, kind="stable"), key)
        # Measured for a million rows: sorting by one key and checking takes 0.23 s, sorting by both lanes 0.62 s. Both
        # are exact. The check fails for a million different rows once in 37 million times.
        if _agree(groups, hashes.high) and (change_ordinals is None or _agree(groups, change_ordinals)):
            return groups
        if change_ordinals is None:
            return _runs(np.lexsort((hashes.low, hashes.high)), hashes.low, hashes.high)
        return _runs(np.lexsort((hashes.low, hashes.high, change_ordinals)), hashes.low, hashes.high, change_ordinals)

    def sums(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sum over each group of a value per row."""
        return np.add.reduceat(values[self.order], self.starts, dtype=np.int64)

    def spread(self, values: NDArray[_Number]) -> NDArray[_Number]:
        """For each row the value of its group."""
        found = np.empty(len(self.order), values.dtype)
        found[self.order] = np.repeat(values, np.diff(self.starts, append=len(self.order)))
        return found


def _runs(order: NDArray[np.int64], *keys: NDArray[np.generic]) -> HashGroups:
    is_start = np.zeros(len(order), np.bool_)
    is_start[:1] = True
    for key in keys:
        is_start[1:] |= _changes(key[order])
    return HashGroups(order=order, starts=np.flatnonzero(is_start))


def _agree(groups: HashGroups, values: NDArray[np.generic]) -> bool:
    # A value that changes inside a group, as 7 to 9 here, gives away two hashes that share a lane:
    #   lane     3 3 | 5 5      groups start at 0 and 2
    #   values   7 7 | 7 9      changes before 3, where no group starts
    changes = np.flatnonzero(_changes(values[groups.order])) + 1
    return len(changes) <= len(groups.starts) and bool(np.isin(changes, groups.starts, assume_unique=True).all())


def _changes(values: NDArray[np.generic]) -> NDArray[np.bool_]:
    return values[1:] != values[:-1]


Positions = NDArray[np.int64]

_LIMB: Final = np.uint64(0xFFFF_FFFF)
_ROWS_PER_BUCKET: Final = 8
_MAX_BUCKET_BITS: Final = 18
"""Bits of the largest table of buckets that stays in the caches."""
_PART_ROWS: Final = 1 << 17
"""Approximate number of rows that are compared at a time: it bounds the memory, and small sorts are faster."""
_MIN_ROWS: Final = 4_096
"""With fewer rows, comparing every row costs less than finding the rows that matter."""


def consolidate(
    hashes: RowHashes, change_ordinals: NDArray[np.int32], weights: NDArray[np.int64]
) -> tuple[Positions, NDArray[np.int64]]:
    """Add up the weights of equal rows of one change ordinal.

    Returns:
        First position of each group of equal rows with a sum that is not zero, ascending, and the sums.

    >>> hashes = RowHashes(np.zeros(3, np.uint64), np.array([7, 8, 7], np.uint64))
    >>> [part.tolist() for part in consolidate(hashes, np.zeros(3, np.int32), np.array([1, 1, -2]))]
    [[0, 1], [-1, 1]]
    """
    groups = HashGroups.of(hashes, change_ordinals)
    sums = groups.sums(weights)
    kept = np.flatnonzero(sums)
    # The first of a group is its smallest position, because positions ascend in a group.
    positions = groups.order[groups.starts[kept]]
    ascending = np.argsort(positions)
    return positions[ascending], sums[kept[ascending]]


def surviving_rows(removed: RowHashes, added: RowHashes) -> tuple[Positions, Positions]:
    """The positions, ascending, of the rows left when each removed row cancels one equal added row.

    Of equal rows, the first of the larger side survive. Nearly free if nearly all rows cancel: hash buckets with equal
    sums on both sides count as cancelled, the rest is compared row by row. Sums over all 128 bits prove it; otherwise
    everything is compared.

    Needs at most 20 bytes per row, in addition to its hash, and 32 MiB.

    >>> removed, added = (RowHashes(np.zeros(3, np.uint64), np.array(low, np.uint64)) for low in ([1, 2, 2], [2, 3, 1]))
    >>> [positions.tolist() for positions in surviving_rows(removed, added)]
    [[1], [1]]
    """
    if not len(removed) or not len(added):
        return np.arange(len(removed)), np.arange(len(added))
    if min(len(removed), len(added)) < _MIN_ROWS:
        return _compare(removed, added)
    # Most rows of a rewritten file are on both sides, so most buckets have equal sums and nothing in them is sorted:
    #   bucket   removed   added   sums
    #   0        a b       b a     equal: taken as cancelled, if the proof below holds
    #   1        c d       x c     differ: c d x c are suspects and compared row by row
    shift = _bucket_shift(len(removed) + len(added))
    unequal = _bucket_sums(removed.low, shift) != _bucket_sums(added.low, shift)
    suspects = [_in_buckets(side.low, unequal, shift) for side in (removed, added)]
    # Measured on 1 + 1 million rows: if one row in twenty changed, comparing suspects takes 0.12 s instead of
    # 0.31 s. If one in five changed, most buckets hold a change, and picking suspects out first only costs time.
    if sum(map(len, suspects)) > (len(removed) + len(added)) // 2:
        return _compare(removed, added)
    removed_suspects, added_suspects = removed.take(suspects[0]), added.take(suspects[1])
    # Buckets add up 32 bits only, so different rows may have equal sums there. Without this proof they would be lost.
    if _sums_without(removed, removed_suspects) != _sums_without(added, added_suspects):
        return _compare(removed, added)
    kept_removed, kept_added = _compare(removed_suspects, added_suspects)
    return suspects[0][kept_removed], suspects[1][kept_added]


def _compare(removed: RowHashes, added: RowHashes) -> tuple[Positions, Positions]:
    bits = min(max((len(removed) + len(added)) // _PART_ROWS, 1).bit_length() - 1, 8)
    if bits == 0:
        return _compare_part(removed, added)
    sides = removed, added
    # A byte for each row, therefore 8 bits at most. Equal hashes are always in one part.
    part_of_row = [(side.low >> np.uint64(64 - bits)).astype(np.uint8) for side in sides]
    survives = [np.zeros(len(side), np.bool_) for side in sides]
    for number in range(1 << bits):
        rows = [np.flatnonzero(of_side == number) for of_side in part_of_row]
        kept = _compare_part(removed.take(rows[0]), added.take(rows[1]))
        for index in (0, 1):
            survives[index][rows[index][kept[index]]] = True
    return np.flatnonzero(survives[0]), np.flatnonzero(survives[1])


def _compare_part(removed: RowHashes, added: RowHashes) -> tuple[Positions, Positions]:
    # The sort is stable, so within a group removed rows come first. Rows a b b removed, b c a added:
    #   group          a     b       c
    #   order          0 5   1 2 3   4      positions 0 to 2 are removed rows, 3 to 5 added ones
    #   removed_rows   1     2       0
    #   added_rows     1     1       1
    #   survives       -     1       4      the first b of the removed rows, and c of the added rows
    groups = HashGroups.of(RowHashes.concat([removed, added]))
    is_added = groups.order >= len(removed)
    sizes = np.diff(groups.starts, append=len(groups.order))
    added_rows = np.add.reduceat(is_added, groups.starts, dtype=np.int64) if len(sizes) else sizes
    removed_rows = sizes - added_rows
    # A group holds its removed rows first, both sides in the order of their positions.
    kept_removed = first_of(groups.starts, removed_rows - added_rows)
    kept_added = first_of(groups.starts + removed_rows, added_rows - removed_rows)
    return np.sort(groups.order[kept_removed]), np.sort(groups.order[kept_added]) - len(removed)


def first_of(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """``starts[i]`` and the ``counts[i] - 1`` numbers after it; nothing if the count is not positive."""
    # For starts 0 and 9, counts 2 and 3:  the numbers    0  1  2  3  4
    #                                      and to each    0  0  7  7  7   its start less the numbers before it
    #                                      make           0  1  9 10 11
    some = np.flatnonzero(counts > 0)
    starts, counts = starts[some], counts[some]
    ends = np.cumsum(counts)
    return np.repeat(starts - (ends - counts), counts) + np.arange(counts.sum())


def _bucket_shift(rows: int) -> np.uint64:
    bits = min(max((rows // _ROWS_PER_BUCKET).bit_length(), 8), _MAX_BUCKET_BITS)
    return np.uint64(64 - bits)


def _bucket_sums(lane: NDArray[np.uint64], shift: np.uint64) -> NDArray[np.float64]:
    """Of the lower 32 bits, by the upper bits; exact below 2^53, and checked."""
    # bincount adds doubles. They hold 53 bits, so sums of whole words would be rounded, differently on each side.
    limbs = (lane & _LIMB).astype(np.float64)
    buckets = (lane >> shift).view(np.int64)
    return np.bincount(buckets, weights=limbs, minlength=1 << (64 - int(shift)))  # type: ignore[return-value]


def _in_buckets(lane: NDArray[np.uint64], wanted: NDArray[np.bool_], shift: np.uint64) -> Positions:
    return np.flatnonzero(wanted[(lane >> shift).view(np.int64)])


def _sums_without(hashes: RowHashes, left_out: RowHashes) -> tuple[int, ...]:
    """Count, sums of both lanes and of their products, mod 2^64."""
    return tuple((whole - less) % (1 << 64) for whole, less in zip(_sums(hashes), _sums(left_out), strict=True))


def _sums(hashes: RowHashes) -> tuple[int, ...]:
    # The product ties the halves of a hash together. With the other sums alone, the hashes (1, 5) and (2, 7) would pass
    # for (1, 7) and (2, 5).
    high, low = hashes.high, hashes.low
    return len(hashes), int(high.sum()), int(low.sum()), int(np.dot(high, low))
