"""Net changes: weights over a whole batch, under the last step that changed the identity."""

import numpy as np
from numpy.typing import NDArray

from icefloe.changes.grouping import HashGroups
from icefloe.changes.row_hash.row_hashes import RowHashes

__all__ = ["net_changes"]


def net_changes(
    *,
    row_hashes: RowHashes,
    identity_hashes: RowHashes | None,
    change_ordinals: NDArray[np.int32],
    weights: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    """Add up the weights of equal rows over all change ordinals.

    The remaining rows get the last ordinal of their identity: as rows are consolidated, the last step that changed it.
    All rows of an identity must be given.

    Args:
        row_hashes: each (row hash, change ordinal) appears once, its weight is not zero.
        identity_hashes: the same for equal rows; None if a row is its own identity.

    Returns:
        First position of each group of equal rows with a sum that is not zero, ascending; the sums; and the ordinals.

    >>> rows = RowHashes(np.zeros(4, np.uint64), np.array([7, 8, 8, 9], np.uint64))
    >>> one = rows.take(np.zeros(4, np.int64))
    >>> step, weights = np.array([0, 0, 2, 2], np.int32), np.array([-1, 1, -1, 1])
    >>> found = net_changes(row_hashes=rows, identity_hashes=one, change_ordinals=step, weights=weights)
    >>> [part.tolist() for part in found]
    [[0, 3], [-1, 1], [2, 2]]
    """
    rows = HashGroups.of(row_hashes)
    # One ordinal for all rows of an identity, not one for each row: rows are paired within an ordinal, so a delete of
    # step 0 and the insert of step 2 that replaces it would not become an update.
    last_ordinals = _last_of_each(rows if identity_hashes is None else HashGroups.of(identity_hashes), change_ordinals)
    sums = rows.sums(weights)
    kept = np.flatnonzero(sums)
    positions = rows.order[rows.starts[kept]]
    ascending = np.argsort(positions)
    positions = positions[ascending]
    return positions, sums[kept[ascending]], last_ordinals[positions]


def _last_of_each(groups: HashGroups, change_ordinals: NDArray[np.int32]) -> NDArray[np.int32]:
    last = np.empty_like(change_ordinals)
    if len(last):
        sizes = np.diff(groups.starts, append=len(last))
        last[groups.order] = np.repeat(np.maximum.reduceat(change_ordinals[groups.order], groups.starts), sizes)
    return last
