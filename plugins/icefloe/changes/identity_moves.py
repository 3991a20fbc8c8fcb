"""Rows whose selected columns stayed the same but whose identity changed: they cancel across identities."""

import numpy as np
from numpy.typing import NDArray

from icefloe.changes.grouping import group_by_hash
from icefloe.changes.row_hash.row_hashes import RowHashes

__all__ = ["cancelled_elsewhere", "combined_hashes"]

_K1 = np.uint64(0x9E3779B97F4A7C15)
_K2 = np.uint64(0xC2B2AE3D27D4EB4F)


def combined_hashes(row_hashes: RowHashes, identity_hashes: RowHashes) -> RowHashes:
    """One hash of a row and its identity; never leaves the process."""
    # Neither XOR nor a plain sum: a row that is its own identity would become 0, and row a of identity b would be the
    # same as row b of identity a. Odd factors keep each half a bijection of the row hash.
    with np.errstate(over="ignore"):
        return RowHashes(row_hashes.high + _K1 * identity_hashes.high, row_hashes.low + _K2 * identity_hashes.low)


def cancelled_elsewhere(
    *,
    row_hashes: RowHashes,
    identity_hashes: RowHashes,
    change_ordinals: NDArray[np.int32],
    weights: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Amounts to add to weights so that equal rows of one ordinal have weights of one sign only.

    The hashes of the identities alone decide which of them keep their rows.

    Args:
        row_hashes: of rows that are consolidated by row, identity and ordinal.
        identity_hashes: of the same rows.
        change_ordinals: of each row.
        weights: of each row, never 0.

    Returns:
        Positions of rows that change, and the amounts to add to their weights; these sum to zero over equal rows.

    >>> rows, zero = np.array([7, 7, 7, 8], np.uint64), np.zeros(4, np.uint64)
    >>> found = cancelled_elsewhere(
    ...     row_hashes=RowHashes(zero, rows), identity_hashes=RowHashes(zero, np.array([3, 1, 2, 1], np.uint64)),
    ...     change_ordinals=np.zeros(4, np.int32), weights=np.array([-1, 1, 1, 1]),
    ... )
    >>> [part.tolist() for part in found]
    [[0, 1], [1, -1]]
    """
    # A row moved from identity 3 to 1, and another one like it was added under 2. One removal and one addition cancel:
    #   row   identity   weight   cancelled   left
    #   7     3          -1       +1          0
    #   7     1          +1       -1          0      the smallest identity hash gives way first
    #   7     2          +1                   +1
    # Any rule would do for the changes, but every run must choose the same rows, whatever the order of its input.
    groups = group_by_hash(row_hashes, change_ordinals)
    added, removed = (groups.sums(np.maximum(sign * weights, 0)) for sign in (1, -1))
    common = np.minimum(added, removed)
    sizes = np.diff(groups.starts, append=len(groups.order))
    is_met = np.repeat(common > 0, sizes)
    rows = groups.order[is_met]
    group_of_row = np.repeat(np.arange(len(sizes)), sizes)[is_met]
    changes = np.zeros(len(weights), np.int64)
    for sign in (1, -1):
        picked = sign * weights[rows] > 0
        cancelled = _first_of_each(group_of_row[picked], rows[picked], identity_hashes, weights, common)
        changes[rows[picked]] = -sign * cancelled
    positions = rows[changes[rows] != 0]
    return positions, changes[positions]


def _first_of_each(
    groups: NDArray[np.int64],
    rows: NDArray[np.int64],
    identity_hashes: RowHashes,
    weights: NDArray[np.int64],
    common: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Weight of each row that cancels: each group's common weight, taken from its rows in the order of identities."""
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
