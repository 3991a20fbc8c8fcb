"""The changes of each identity in a batch: in one place, by ordinal, and paired if they can be."""

import numpy as np
from numpy.typing import NDArray

from icefloe.changes.columns import ChangeType
from icefloe.changes.hash_slice import HashSlice
from icefloe.changes.row_hash.row_hashes import RowHashes

__all__ = ["IdentityOrder"]

_DELETED = np.int8(1)
_INSERTED = np.int8(2)


class IdentityOrder:
    """Runs of neighbouring changes of one identity; every identity must have one run in a batch.

    Holds 16 bytes for each identity of the slice. A batch too large for that is read in slices.

    Args:
        hash_slice: slice of the identities that are held.
    """

    def __init__(self, hash_slice: HashSlice) -> None:
        self._slice = hash_slice
        self._held: list[RowHashes] = []
        self._last: tuple[int, int, np.int8] | None = None
        self._faults: dict[str, None] = {}

    def add(self, identities: RowHashes, ordinals: NDArray[np.int32], types: NDArray[np.int8]) -> None:
        """Adds the next changes of a part; the three have one length, which is not 0."""
        is_new = np.ones(len(identities), np.bool_)
        is_new[1:] = (identities.high[1:] != identities.high[:-1]) | (identities.low[1:] != identities.low[:-1])
        is_new_step = is_new.copy()
        is_new_step[1:] |= ordinals[1:] != ordinals[:-1]
        sides = np.where(types == ChangeType.DELETE, _DELETED, np.int8(0))
        sides = np.where(types == ChangeType.INSERT, _INSERTED, sides)
        if self._last is not None:
            identity, ordinal, side = self._last
            is_new[0] = identities[0] != identity
            if not is_new[0] and ordinals[0] == ordinal:
                sides[0] |= side
            if not is_new[0] and ordinals[0] < ordinal:
                self._fault_order()
        if (~is_new[1:] & (ordinals[1:] < ordinals[:-1])).any():
            self._fault_order()
        # Bits, so that OR shows both: 1 or 2 is a delete or an insert, 3 is one of each, which must be an update.
        by_step = np.bitwise_or.reduceat(sides, np.flatnonzero(is_new_step))
        if (by_step == _DELETED | _INSERTED).any():
            self._faults["rows of one identity went and came in one step, and are no update"] = None
        self._last = (identities[len(identities) - 1], int(ordinals[-1]), by_step[-1])
        starts = identities.take(np.flatnonzero(is_new))
        self._held.append(starts.take(self._slice.positions(starts)))

    def end_part(self) -> None:
        """Ends a part. The next changes belong to another part."""
        self._last = None

    def faults(self) -> list[str]:
        """Faults of the changes as sentences, each kind once; empty if there are none."""
        held = RowHashes.concat(self._held)
        order = np.lexsort((held.low, held.high))
        high, low = held.high[order], held.low[order]
        # Each run is held once, so an identity that is held twice has two runs.
        if ((high[1:] == high[:-1]) & (low[1:] == low[:-1])).any():
            self._faults["the changes of one identity are not in one place of one part"] = None
        return list(self._faults)

    def _fault_order(self) -> None:
        self._faults["the changes of one identity are not in the order of their ordinals"] = None
