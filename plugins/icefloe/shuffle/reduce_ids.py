"""Reduce ids: the reduce partition that a row belongs to, and rows ordered by it."""

import numpy as np
from numpy.typing import NDArray

from icefloe.changes.row_hash.row_hashes import RowHashes

__all__ = ["reduce_ids"]


def reduce_ids(identity_hashes: RowHashes, num_partitions: int) -> NDArray[np.int32]:
    """The reduce partition of each row: the 128-bit row hash of its identity modulo the number of partitions.

    Args:
        identity_hashes: hashes of the identity columns, or of the whole row if there is no identity.
        num_partitions: number of reduce partitions of the shuffle.
    """
    return identity_hashes.modulo(num_partitions).astype(np.int32, copy=False)


def order_by_reduce_id(ids: NDArray[np.int32], num_partitions: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row positions in the order of their reduce partitions, rows of one partition in the order they came.

    Returns:
        The positions to take, and the rows of each partition (``num_partitions`` counts).

    >>> order = order_by_reduce_id(np.array([2, 0, 2, 0], np.int32), 3)
    >>> [part.tolist() for part in order]
    [[1, 3, 0, 2], [2, 0, 2]]

    Raises:
        ValueError: an id lies outside the partitions.
    """
    if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < num_partitions:
        raise ValueError(f"reduce ids lie in [0, {num_partitions}), found {ids.min()} to {ids.max()}")
    counts = np.bincount(ids, minlength=num_partitions)
    # NumPy's stable sort is a radix sort for 16 bits and a merge sort, five times slower, above.
    sortable = ids.astype(np.uint16) if num_partitions <= 1 << 16 else ids
    return np.argsort(sortable, kind="stable"), counts
