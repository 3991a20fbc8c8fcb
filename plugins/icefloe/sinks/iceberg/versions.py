"""The versions of rows that changes make, go on with and end."""

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from icefloe.changes.consolidate import HashGroups
from icefloe.changes.row_hash.row_hashes import RowHashes


class SeveralRowsError(Exception):
    """A key has several rows at once; ``position`` is that of a change of it."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Some versions of rows, one entry in each array; all that changes leave as they were are left out.

    Attributes:
        is_old: True if it was there before the changes.
        first: position of its first change: the removal of an old one, otherwise its first row.
        row: position of its last row; -1 of an old one that keeps its row.
        opened: ordinal at which it began; of an old one, without a meaning.
        closed: ordinal at which it ended; -1: it is current.
    """

    is_old: NDArray[np.bool_]
    first: NDArray[np.int64]
    row: NDArray[np.int64]
    opened: NDArray[np.int64]
    closed: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        keys: RowHashes,
        tracked: RowHashes,  # of the columns whose changes make a new version
        rows: RowHashes,
        ordinals: NDArray[np.int32],
        weights: NDArray[np.int64],
    ) -> "Versions":
        """The versions of changes; needs about 100 bytes a change.

        A key has one row at most after each ordinal, and a removal takes the row that was added before it.

        Raises:
            SeveralRowsError: that is not so.
        """
        groups = HashGroups.of(keys)
        group = groups.spread(np.arange(len(groups.starts)))
        order = np.lexsort((weights, ordinals, group))
        ordinal, is_added = ordinals[order].astype(np.int64), weights[order] > 0
        is_start = np.append(True, np.diff(group[order]) != 0)[: len(order)]
        before = np.maximum(np.arange(len(order)) - 1, 0)
        wrong = ~is_start & ((is_added == is_added[before]) | (~is_added & ~_equal(rows, order, order[before])))
        if wrong.any():
            raise SeveralRowsError(int(order[wrong].min()))
        # Of a key, by ordinal: an update of a column that is not tracked goes on with the version.
        #   1 +a          begins
        #   4 -a 4 +b     ends, begins
        #   5 -b 5 +b'    goes on
        #   7 -b'         ends
        goes_on = ~is_start & is_added & (ordinal == ordinal[before]) & _equal(tracked, order, order[before])
        first = np.flatnonzero(is_start | (is_added & ~goes_on))
        last = np.append(first[1:], len(order))[: len(first)] - 1
        row = np.where(is_added[last], last, last - 1)
        is_old, is_current = ~is_added[first], is_added[last]
        has_row = row >= first
        is_same = is_old & is_current & _equal(rows, order[first], order[row])
        kept = ~is_same
        return cls(
            is_old=is_old[kept],
            first=order[first[kept]],
            row=np.where(has_row, order[row], -1)[kept],
            opened=ordinal[first[kept]],
            closed=np.where(is_current, -1, ordinal[last])[kept],
        )

    def take(self, places: NDArray[np.integer] | NDArray[np.bool_]) -> "Versions":
        """Some of them."""
        return Versions(**{field.name: getattr(self, field.name)[places] for field in fields(self)})

    def shifted(self, count: int) -> "Versions":
        """The same, whose last rows are counted without the first ``count`` changes."""
        return replace(self, row=np.where(self.row < 0, -1, self.row - count))

    @classmethod
    def concat(cls, *some: "Versions") -> "Versions":
        """All of them."""
        columns = (np.concatenate([getattr(each, field.name) for each in some]) for field in fields(cls))
        return cls(**dict(zip((field.name for field in fields(cls)), columns, strict=True)))


def _equal(hashes: RowHashes, one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.bool_]:
    return (hashes.high[one] == hashes.high[other]) & (hashes.low[one] == hashes.low[other])
