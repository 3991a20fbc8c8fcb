"""Rows with the same selected columns but another identity: they cancel across identities."""

import numpy as np
from numpy.typing import NDArray

from icefloe.changes.consolidate import HashGroups
from icefloe.changes.row_hash.row_hashes import RowHashes

__all__ = ["SharedWeights", "combined_hashes"]

_K1 = np.uint64(0x9E3779B97F4A7C15)
_K2 = np.uint64(0xC2B2AE3D27D4EB4F)


def combined_hashes(row_hashes: RowHashes, identity_hashes: RowHashes) -> RowHashes:
    """One hash of a row and its identity; never leaves the process."""
    # Neither XOR nor a plain sum: a row that is its own identity would become 0, and row a of identity b would be the
    # same as row b of identity a. Odd factors keep each half a bijection of the row hash.
    with np.errstate(over="ignore"):
        return RowHashes(row_hashes.high + _K1 * identity_hashes.high, row_hashes.low + _K2 * identity_hashes.low)


class SharedWeights:
    """Cancels equal rows of one ordinal to weights of one sign: add all pieces, then cancel each.

    Rows are consolidated by row, identity and ordinal; equal ones are in one piece. Identity hashes ascend from piece
    to piece when cancelled. Memory is for the different rows, however many identities they have.

    >>> rows, zero = np.array([7, 7], np.uint64), np.zeros(2, np.uint64)
    >>> pieces = [
    ...     {
    ...         "row_hashes": RowHashes(zero, rows), "identity_hashes": RowHashes(zero, np.array(numbers, np.uint64)),
    ...         "change_ordinals": np.zeros(2, np.int32), "weights": np.array(weights),
    ...     }
    ...     for numbers, weights in (([1, 2], [1, 1]), ([3, 4], [-1, 2]))
    ... ]
    >>> shared = SharedWeights()
    >>> for piece in pieces:
    ...     shared.add(piece["row_hashes"], piece["change_ordinals"], piece["weights"])
    >>> [[part.tolist() for part in shared.cancelled(**piece)] for piece in pieces]
    [[[0], [-1]], [[0], [1]]]
    """

    def __init__(self) -> None:
        nothing = np.zeros(0, np.uint64)
        self._hashes = RowHashes(nothing, nothing)
        self._ordinals = np.zeros(0, np.int32)
        self._sums = {sign: np.zeros(0, np.int64) for sign in (1, -1)}
        self._left: dict[int, NDArray[np.int64]] = {}

    def add(self, row_hashes: RowHashes, change_ordinals: NDArray[np.int32], weights: NDArray[np.int64]) -> None:
        """Takes the rows of a piece."""
        hashes = RowHashes.concat([self._hashes, row_hashes])
        ordinals = np.concatenate([self._ordinals, change_ordinals])
        groups = HashGroups.of(hashes, ordinals)
        first = groups.order[groups.starts]
        self._hashes, self._ordinals = hashes.take(first), ordinals[first]
        self._sums = {
            sign: groups.sums(np.concatenate([sums, np.maximum(sign * weights, 0)]))
            for sign, sums in self._sums.items()
        }

    def cancelled(
        self,
        *,
        row_hashes: RowHashes,
        identity_hashes: RowHashes,
        change_ordinals: NDArray[np.int32],
        weights: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Positions in the next piece, and the amounts to add to their weights.

        The amounts sum to zero over equal rows of all pieces. The hashes of the identities decide which rows are kept.
        """
        # A row moved from identity 3 to 1, and another one like it was added under 2. One removal and one addition
        # cancel:
        #   row   identity   weight   cancelled   left
        #   7     3          -1       +1          0
        #   7     1          +1       -1          0      the smallest identity hash gives way first
        #   7     2          +1                   +1
        # Any rule would do for the changes, but every run must choose the same rows, whatever the order of its input.
        if not self._left:
            common = np.minimum(self._sums[1], self._sums[-1])
            self._left = {sign: common.copy() for sign in (1, -1)}
        known = len(self._ordinals)
        groups = HashGroups.of(
            RowHashes.concat([self._hashes, row_hashes]), np.concatenate([self._ordinals, change_ordinals])
        )
        # The known row of a group comes first, because positions ascend within a group.
        of_piece = groups.spread(groups.order[groups.starts])[known:]
        changes = np.zeros(len(weights), np.int64)
        for sign, left in self._left.items():
            rows = np.flatnonzero((sign * weights > 0) & (left[of_piece] > 0))
            gone = _first_of_each(of_piece[rows], rows, identity_hashes, weights, left)
            changes[rows] = -sign * gone
            np.subtract.at(left, of_piece[rows], gone)
        positions = np.flatnonzero(changes)
        return positions, changes[positions]


def _first_of_each(
    groups: NDArray[np.int64],
    rows: NDArray[np.int64],
    identity_hashes: RowHashes,
    weights: NDArray[np.int64],
    common: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Each group's common weight, taken in the order of identities."""
    identities = identity_hashes.take(rows)
    order = np.lexsort((identities.low, identities.high, groups))
    sizes = np.abs(weights[rows[order]])
    # Each row gives what the rows before it in its group left over of the common weight, 3 here:
    #   sizes       2  2  1
    #   before      0  2  4
    #   cancelled   2  1  0      3 - before, at least 0 and at most the size
    before = np.cumsum(sizes) - sizes
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    before -= np.repeat(before[starts], np.diff(starts, append=len(order)))
    cancelled = np.empty(len(rows), np.int64)
    cancelled[order] = np.clip(common[groups[order]] - before, 0, sizes)
    return cancelled
