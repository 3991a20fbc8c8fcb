"""Rows with their weight in each step, and sets of rows of one file."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64

from icefloe.changes.row_hash.row_hashes import RowHashes

__all__ = ["Effect", "Positions", "RowSet", "WeightedRows"]

Positions = NDArray[np.int64]
"""Ascending, each once."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowSet:
    """Rows by position.

    Attributes:
        positions: the rows, or those left out; a bitmap is shared and never changed.
    """

    positions: Positions | BitMap64
    is_all_but: bool = False

    ALL: ClassVar["RowSet"]

    @property
    def is_all(self) -> bool:
        """True if every row is in it, however many there are."""
        return self.is_all_but and not len(self.positions)

    def count(self, num_rows: int) -> int:
        """Rows of the set in a file of ``num_rows``."""
        return num_rows - len(self.positions) if self.is_all_but else len(self.positions)

    def count_between(self, first: int, stop: int) -> int:
        """Rows of the set from ``first`` to ``stop``, exclusive."""
        if isinstance(self.positions, BitMap64):
            found = self.positions.range_cardinality(first, stop) if first < stop else 0
        else:
            found = int(np.diff(np.searchsorted(self.positions, (first, stop)))[0])
        return stop - first - found if self.is_all_but else found

    def among(self, positions: Positions) -> Positions:
        """Indices of ascending positions that are in the set.

        >>> RowSet(positions=np.array([2, 5]), is_all_but=True).among(np.array([1, 2, 3])).tolist()
        [0, 2]
        """
        if self.is_all:
            return np.arange(len(positions))
        wanted = self._between(*_ends(positions))
        # Both ascend, so each wanted position has one place: `np.isin` would sort both again.
        places = np.searchsorted(positions, wanted)
        found = places[positions[places] == wanted]
        return np.delete(np.arange(len(positions)), found) if self.is_all_but else found

    def seen_from(self, positions: Positions) -> "RowSet":
        """The set if only the rows at ``positions`` are left, numbered from 0."""
        own = self.among(positions)
        return RowSet.ALL if len(own) == len(positions) else RowSet(positions=own)

    def union(self, other: Self) -> "RowSet":
        """The rows in either."""
        one, two = self.positions, other.positions
        match self.is_all_but, other.is_all_but:
            # All but {2, 5} or all but {5, 7} is all but {5}; all but {2, 5} or {5} is all but {2}.
            case True, True:
                return RowSet(positions=_intersection(one, two), is_all_but=True)
            case True, False:
                return RowSet(positions=_difference(one, two), is_all_but=True)
            case False, True:
                return RowSet(positions=_difference(two, one), is_all_but=True)
        return RowSet(positions=_union(one, two))

    @classmethod
    def union_of(cls, sets: Sequence[Self]) -> "RowSet":
        """The rows in any set.

        >>> listed(RowSet.union_of([RowSet(positions=np.array([each])) for each in (5, 2, 5)]).positions).tolist()
        [2, 5]
        """
        return reduce(RowSet.union, sets, RowSet(positions=np.zeros(0, np.int64)))

    def _between(self, first: int, stop: int) -> Positions:
        """Positions from ``first`` to ``stop``, exclusive."""
        if isinstance(self.positions, BitMap64):
            return listed(self.positions & BitMap64(range(first, stop)))
        return self.positions[slice(*np.searchsorted(self.positions, (first, stop)))]


RowSet.ALL = RowSet(positions=np.zeros(0, np.int64), is_all_but=True)


def listed(positions: Positions | BitMap64) -> Positions:
    """Positions as numbers."""
    if isinstance(positions, BitMap64):
        return np.frombuffer(positions.to_array(), np.uint64).view(np.int64)
    return positions


def _combined(
    one: Positions | BitMap64,
    two: Positions | BitMap64,
    *,
    bitmaps: Callable[[BitMap64, BitMap64], BitMap64],
    numbers: Callable[[Positions, Positions], Positions],
) -> Positions | BitMap64:
    """Two bitmaps to a bitmap, otherwise to numbers. No positions count as a bitmap."""
    if not len(one) or not len(two):
        one, two = (each if isinstance(each, BitMap64) or len(each) else BitMap64() for each in (one, two))
    if isinstance(one, BitMap64) and isinstance(two, BitMap64):
        return bitmaps(one, two)
    return numbers(listed(one), listed(two))


_union = partial(_combined, bitmaps=operator.or_, numbers=np.union1d)
_difference = partial(_combined, bitmaps=operator.sub, numbers=partial(np.setdiff1d, assume_unique=True))
_intersection = partial(_combined, bitmaps=operator.and_, numbers=partial(np.intersect1d, assume_unique=True))


def _ends(positions: Positions) -> tuple[int, int]:
    return (int(positions[0]), int(positions[-1]) + 1) if len(positions) else (0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The effect of a step on rows of one file."""

    change_ordinal: int
    weight: int
    rows: RowSet = RowSet.ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedRows:
    """Rows with weights.

    Attributes:
        batch: compared rows (see `RowShape`).
    """

    batch: pa.RecordBatch
    row_hashes: RowHashes
    change_ordinals: NDArray[np.int32]
    weights: NDArray[np.int64]

    @classmethod
    def of(cls, batch: pa.RecordBatch, hashes: RowHashes, positions: Positions, effects: Sequence[Effect]) -> Self:
        """The rows of a batch at ``positions`` of their file, once for every effect that they have."""
        picks = [effect.rows.among(positions) for effect in effects]
        rows = [len(pick) for pick in picks]
        ordinals = np.repeat(np.array([effect.change_ordinal for effect in effects], np.int32), rows)
        weights = np.repeat(np.array([effect.weight for effect in effects], np.int64), rows)
        if len(effects) == 1 and rows[0] == batch.num_rows:
            return cls(batch=batch, row_hashes=hashes, change_ordinals=ordinals, weights=weights)
        taken = np.concatenate(picks)
        return cls(
            batch=batch.take(pa.array(taken)), row_hashes=hashes.take(taken), change_ordinals=ordinals, weights=weights
        )
