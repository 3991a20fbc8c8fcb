"""Row sets: some rows of a file, by their positions or by those that are left out."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Positions", "RowSet"]

Positions = NDArray[np.int64]
"""Ascending, each once."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowSet:
    """Rows by position.

    Attributes:
        positions: the rows, or the rows that are left out.
        is_all_but: whether it is all rows but those at ``positions``.
    """

    positions: Positions
    is_all_but: bool = False

    ALL: ClassVar["RowSet"]

    @property
    def is_all(self) -> bool:
        """Whether every row is in it, however many there are."""
        return self.is_all_but and not len(self.positions)

    def count(self, num_rows: int) -> int:
        """How many rows there are of a file of ``num_rows``."""
        return num_rows - len(self.positions) if self.is_all_but else len(self.positions)

    def count_between(self, first: int, stop: int) -> int:
        """How many rows there are from one position to another, exclusive."""
        listed = int(np.diff(np.searchsorted(self.positions, (first, stop)))[0])
        return stop - first - listed if self.is_all_but else listed

    def among(self, positions: Positions) -> Positions:
        """Which of some ascending positions are in it: their indices.

        >>> RowSet(positions=np.array([2, 5]), is_all_but=True).among(np.array([1, 2, 3])).tolist()
        [0, 2]
        """
        if self.is_all:
            return np.arange(len(positions))
        within = self.positions[slice(*np.searchsorted(self.positions, _ends(positions)))]
        is_listed = np.isin(positions, within, assume_unique=True)
        return np.flatnonzero(is_listed != self.is_all_but)

    def seen_from(self, positions: Positions) -> "RowSet":
        """The same rows where only those at ``positions`` are left, numbered from 0."""
        here = self.among(positions)
        return RowSet.ALL if len(here) == len(positions) else RowSet(positions=here)

    def union(self, other: Self) -> "RowSet":
        """The rows in either."""
        match self.is_all_but, other.is_all_but:
            case True, True:
                left_out = np.intersect1d(self.positions, other.positions, assume_unique=True)
                return RowSet(positions=left_out, is_all_but=True)
            case True, False:
                left_out = np.setdiff1d(self.positions, other.positions, assume_unique=True)
                return RowSet(positions=left_out, is_all_but=True)
            case False, True:
                return other.union(self)
        return RowSet(positions=np.union1d(self.positions, other.positions))

    @classmethod
    def union_of(cls, sets: Sequence[Self]) -> "RowSet":
        """The rows in any of them.

        >>> RowSet.union_of([RowSet(positions=np.array([each])) for each in (5, 2, 5)]).positions.tolist()
        [2, 5]
        """
        listed = [each.positions for each in sets if not each.is_all_but]
        rows = RowSet(positions=np.unique(np.concatenate([np.zeros(0, np.int64), *listed])))
        return reduce(RowSet.union, (each for each in sets if each.is_all_but), rows)


RowSet.ALL = RowSet(positions=np.zeros(0, np.int64), is_all_but=True)


def _ends(positions: Positions) -> tuple[int, int]:
    return (int(positions[0]), int(positions[-1]) + 1) if len(positions) else (0, 0)
