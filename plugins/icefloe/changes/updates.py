"""Consolidated rows in the order of delivery: update pairs, each row with its change type; and net changes.

Net changes are the weights over a whole batch, under the last step that changed the identity.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from icefloe.changes.columns import ChangeType
from icefloe.changes.consolidate import HashGroups
from icefloe.changes.row_hash.row_hashes import RowHashes

__all__ = ["net_changes", "pair_updates"]


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
    groups = rows if identity_hashes is None else HashGroups.of(identity_hashes)
    last_ordinals = groups.spread(np.maximum.reduceat(change_ordinals[groups.order], groups.starts))
    sums = rows.sums(weights)
    kept = np.flatnonzero(sums)
    positions = rows.order[rows.starts[kept]]
    ascending = np.argsort(positions)
    positions = positions[ascending]
    return positions, sums[kept[ascending]], last_ordinals[positions]


Keys = Sequence[NDArray[np.integer]]
OrderOf = Callable[[NDArray[np.int64]], RowHashes]

_CODES: Final = np.array(
    [[ChangeType.DELETE, ChangeType.INSERT], [ChangeType.UPDATE_BEFORE, ChangeType.UPDATE_AFTER]], np.uint8
)
"""Codes by (is the row paired, is it an insert)."""


def pair_updates(
    *,
    row_hashes: RowHashes,
    identity_hashes: RowHashes | None,
    change_ordinals: NDArray[np.int32],
    weights: NDArray[np.int64],
    order_of: OrderOf,
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Expand consolidated rows by their weights, pair deletes with inserts, and order them.

    Of d deletes and i inserts with one identity and ordinal, the last min(d, i) deletes and the first min(d, i)
    inserts, by ``order_of``, become UPDATE_BEFORE and UPDATE_AFTER. Rows are ordered by identity hash and ordinal:
    deletes, pairs, inserts. So a reader that goes by identity ends with a row that the step added, if any. Without
    identities no rows are paired, and row hashes decide. The order of the input has no effect.

    Args:
        row_hashes: of consolidated rows: each (row hash, change ordinal) appears once.
        identity_hashes: None if rows have no identity.
        weights: weight +k or -k means k rows.
        order_of: public hashes of rows, the same in every batch. Asked only if an identity has several rows of one
            sign.

    Returns:
        The positions of the rows to take, and their ``ChangeType`` codes.

    >>> rows = RowHashes(np.zeros(3, np.uint64), np.array([7, 5, 6], np.uint64))
    >>> one = rows.take(np.zeros(3, np.int64))
    >>> weights = np.array([1, -1, 1])
    >>> ordinals = np.zeros(3, np.int32)
    >>> paired = pair_updates(
    ...     row_hashes=rows, identity_hashes=one, change_ordinals=ordinals, weights=weights, order_of=rows.take
    ... )
    >>> [(int(row), ChangeType(code).name) for row, code in zip(*paired)]
    [(1, 'UPDATE_BEFORE'), (2, 'UPDATE_AFTER'), (0, 'INSERT')]
    """
    if identity_hashes is None:
        order = _sorted_by((row_hashes.high, change_ordinals), (row_hashes.high, row_hashes.low, change_ordinals))
        take = np.repeat(order, np.abs(weights[order]))
        return take, _CODES[0, (weights[take] > 0).astype(np.int64)]
    order = _sorted_by(
        (identity_hashes.high, change_ordinals, row_hashes.high),
        (identity_hashes.high, identity_hashes.low, change_ordinals, row_hashes.high, row_hashes.low),
    )
    _order_in_public(order, _starts(order, _groups(identity_hashes, change_ordinals)), weights, order_of)
    take = np.repeat(order, np.abs(weights[order]))
    starts = _starts(take, _groups(identity_hashes, change_ordinals))
    places, codes = _pair(weights[take] > 0, starts)
    delivered = np.empty_like(take)
    types = np.empty(len(take), np.uint8)
    delivered[places], types[places] = take, codes
    return delivered, types


def _groups(identity_hashes: RowHashes, change_ordinals: NDArray[np.int32]) -> Keys:
    return identity_hashes.high, identity_hashes.low, change_ordinals


def _order_in_public(
    order: NDArray[np.int64], starts: NDArray[np.int64], weights: NDArray[np.int64], order_of: OrderOf
) -> None:
    """In place, in groups with several of one sign."""
    if not len(order):
        return
    sizes = np.diff(starts, append=len(order))
    inserts = np.add.reduceat((weights[order] > 0).astype(np.int64), starts)
    is_crowded = np.maximum(inserts, sizes - inserts) > 1
    places = np.flatnonzero(np.repeat(is_crowded, sizes))
    if len(places):
        rows, group = order[places], np.repeat(starts, sizes)[places]
        public = order_of(rows)
        order[places] = rows[np.lexsort((public.low, public.high, group))]


def _pair(is_insert: NDArray[np.bool_], starts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Groups of one identity and ordinal begin at ``starts``."""
    # Three deletes and two inserts of one identity and ordinal, in the order of their row hashes:
    #   row           +a  -b  +c  -d  -e
    #   insert_rank    0   1   1   2   2     inserts before it
    #   rank           0   0   1   1   2     rows of the same sign before it
    #   pair           0  -1   1   0   1     rank, of deletes without the one that stays alone
    #   places         2   0   4   1   3     so they are delivered as -b, -d +a, -e +c
    sizes = np.diff(starts, append=len(is_insert))
    inserts: NDArray[np.int64] = is_insert.astype(np.int64)
    inserts_before: NDArray[np.int64] = np.cumsum(inserts) - inserts
    inserts_at_start = inserts_before[starts]
    group_inserts = np.diff(inserts_at_start, append=inserts.sum())
    pairs = np.repeat(np.minimum(group_inserts, sizes - group_inserts), sizes)
    alone = np.repeat(sizes - group_inserts, sizes) - pairs
    start = np.repeat(starts, sizes)
    insert_rank = inserts_before - np.repeat(inserts_at_start, sizes)
    rank = np.where(is_insert, insert_rank, np.arange(len(is_insert)) - start - insert_rank)
    pair = np.where(is_insert, rank, rank - alone)
    is_paired = (pair >= 0) & (pair < pairs)
    places = start + np.where(is_paired, alone + 2 * pair + inserts, rank + pairs * inserts)
    return places, _CODES[is_paired.astype(np.int64), inserts]


def _sorted_by(short: Keys, full: Keys) -> NDArray[np.int64]:
    """Most significant key first."""
    order = np.lexsort(tuple(reversed(short)))
    return order if _is_sorted(order, full) else np.lexsort(tuple(reversed(full)))


def _is_sorted(order: NDArray[np.int64], keys: Keys) -> bool:
    # From the least significant key on: two neighbours are in order if this key is less, or equal and the keys after it
    # are in order.
    is_before = np.ones(max(len(order) - 1, 0), np.bool_)
    for key in reversed(keys):
        values = key[order]
        is_before &= values[:-1] == values[1:]
        is_before |= values[:-1] < values[1:]
    return bool(is_before.all())


def _starts(take: NDArray[np.int64], keys: Keys) -> NDArray[np.int64]:
    is_start = np.zeros(len(take), np.bool_)
    is_start[:1] = True
    for key in keys:
        values = key[take]
        is_start[1:] |= values[1:] != values[:-1]
    return np.flatnonzero(is_start)
