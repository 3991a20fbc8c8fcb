"""Row lineage: which rows of two sides a commit only copied, told by two numbers of each row.

A copied row keeps its row id and its last updated sequence number. A row that was updated keeps its row id, and its
sequence number is that of the commit.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["rows_not_copied"]

Numbers = NDArray[np.int64]


def rows_not_copied(
    removed_ids: Numbers, removed_sequence_numbers: Numbers, added_ids: Numbers, added_sequence_numbers: Numbers
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """The positions of removed and of added rows that have no copy on the other side.

    Each row has a row id and a sequence number. Needs about 40 bytes per row; ids in ascending order are faster.

    Returns:
        Positions of removed and of added rows; None if a row id is there twice on one side, so that it tells nothing.

    >>> rows_not_copied(*(np.array(numbers) for numbers in ([7, 8, 9], [1, 1, 1], [9, 8, 10], [1, 2, 2])))
    (array([0, 1]), array([1, 2]))
    """
    # A stable sort of two ascending runs only merges them, and puts a removed row before its copy.
    ids = np.concatenate((removed_ids, added_ids))
    order = np.argsort(ids, kind="stable")
    in_order = ids[order]
    places = np.flatnonzero(in_order[1:] == in_order[:-1])
    one, other = order[places], order[places + 1]
    num_removed = len(removed_ids)
    if not ((one < num_removed) & (other >= num_removed)).all():
        return None
    other -= num_removed
    is_copy = removed_sequence_numbers[one] == added_sequence_numbers[other]
    return _all_but(one[is_copy], num_removed), _all_but(other[is_copy], len(added_ids))


def _all_but(positions: NDArray[np.int64], num_rows: int) -> NDArray[np.int64]:
    is_left = np.ones(num_rows, np.bool_)
    is_left[positions] = False
    return np.flatnonzero(is_left)
