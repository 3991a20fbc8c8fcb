"""The rows of a data file that a batch touches, the effects on them, and the sums that prove a batch."""

import operator
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import ClassVar, Final, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64

from icefloe.batch.plan_document import DeleteState, FileTerms, MapTask
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.errors import TerminalError
from icefloe.iceberg.data_file import DataFile
from icefloe.iceberg.files.reader import FileReader
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.shuffle.index_file import OrdinalSums

__all__ = ["Effect", "FileEffects", "Positions", "RowSet", "Sums", "WeightedRows", "task_file_effects"]

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


_MODULUS: Final = 1 << 128


class Sums:
    """Per change ordinal, the signed count of rows and the signed sum of row hashes.

    Both are invariant under consolidation, reordering and regrouping. So the sums of the rows that map tasks hand on
    equal the sums of the changes. The plain number of rows is not invariant, and is never compared.
    """

    def __init__(self, sums: Iterable[OrdinalSums] = ()) -> None:
        #   handed on   +a -b +b      3 rows, signed count 1, hash sum a
        #   delivered   +a            1 row, and the same sums
        self._by_ordinal: dict[int, tuple[int, int, int]] = {}
        for each in sums:
            self._add(each.change_ordinal, each.rows, each.signed_count, each.hash_sum)

    def add_rows(self, hashes: RowHashes, change_ordinals: NDArray[np.int32], weights: NDArray[np.int64]) -> None:
        """Adds rows; the three have the same length."""
        for ordinal in np.unique(change_ordinals):
            rows = np.flatnonzero(change_ordinals == ordinal)
            picked = weights[rows]
            self._add(int(ordinal), len(rows), int(picked.sum()), hashes.take(rows).signed_sum(picked))

    def to_documents(self) -> tuple[OrdinalSums, ...]:
        """The sums by ordinal."""
        return tuple(
            OrdinalSums(change_ordinal=ordinal, rows=rows, signed_count=count, hash_sum=hash_sum)
            for ordinal, (rows, count, hash_sum) in sorted(self._by_ordinal.items())
        )

    def signed_counts(self) -> Mapping[int, int]:
        """Inserts less deletes by ordinal."""
        return {ordinal: count for ordinal, (_, count, _) in self._by_ordinal.items()}

    def hash_sum(self) -> int:
        """The hash sum over all ordinals, mod 2^128."""
        return sum(hash_sum for _, _, hash_sum in self._by_ordinal.values()) % _MODULUS

    def require(self, expected: Self, *, what: str, per_ordinal: bool = True) -> None:
        """Checks these sums against the expected sums."""
        these, wanted = self._compared(per_ordinal), expected._compared(per_ordinal)
        for ordinal in sorted(these.keys() | wanted.keys()):
            (count, hash_sum), (wanted_count, wanted_sum) = (each.get(ordinal, (0, 0)) for each in (these, wanted))
            if (count, hash_sum) != (wanted_count, wanted_sum):
                where = f"in change ordinal {ordinal}" if per_ordinal else "over its steps"
                raise TerminalError(
                    f"{what} does not add up {where}: expected {wanted_count} rows net with hash sum "
                    f"{wanted_sum:032x}, found {count} with {hash_sum:032x}; the batch is not delivered, report this "
                    "with the batch's folder",
                )

    def _compared(self, per_ordinal: bool) -> Mapping[int, tuple[int, int]]:
        """By ordinal, or over all ordinals under 0."""
        if per_ordinal:
            return {ordinal: (count, hash_sum) for ordinal, (_, count, hash_sum) in self._by_ordinal.items()}
        return {0: (sum(self.signed_counts().values()), self.hash_sum())}

    def _add(self, ordinal: int, rows: int, count: int, hash_sum: int) -> None:
        old_rows, old_count, old_sum = self._by_ordinal.get(ordinal, (0, 0, 0))
        self._by_ordinal[ordinal] = (old_rows + rows, old_count + count, (old_sum + hash_sum) % _MODULUS)


class TermEffects:
    """Terms for one data file after another, each as costly as the delete files that delete rows of it."""

    def __init__(self, terms: FileTerms) -> None:
        self._terms: dict[int, list[tuple[int, int]]] = {}
        for ordinal, weight, state in terms.terms:
            self._terms.setdefault(ordinal, []).append((weight, state))
        named = {state for _, _, state in terms.terms}
        self._delete_files = tuple(_delete_files_of(terms.delete_states, named))
        self._changes = _changes_by_delete_file(terms.delete_states)
        self._unbalanced = [ordinal for ordinal, of_step in self._terms.items() if sum(weight for weight, _ in of_step)]
        self._spans = [
            (min(state for _, state in of_step), max(state for _, state in of_step), ordinal)
            for ordinal, of_step in self._terms.items()
        ]
        self._spanning: dict[int, list[int]] = {}

    def on(self, num_rows: int, deleted_by: Callable[[Sequence[int]], Mapping[int, BitMap64]]) -> tuple[Effect, ...]:
        """Effects by ordinal, each with a weight other than 0 and at least one row."""
        found = deleted_by(self._delete_files) if self._delete_files else {}
        deleted = {delete_id: positions for delete_id, positions in found.items() if positions}
        # States between two of these have the same rows: terms of such states cancel without a look at rows.
        changes = sorted({state for delete_id in deleted for state, _ in self._changes[delete_id]})
        ordinals = sorted(
            {*self._unbalanced, *(ordinal for state in changes for ordinal in self._ordinals_that_span(state))}
        )
        terms = {ordinal: _net(self._terms[ordinal], changes) for ordinal in ordinals}
        gone = self._gone(deleted, changes, {number for of_step in terms.values() for number in of_step})
        effects: list[Effect] = []
        for ordinal, of_step in terms.items():
            effects += _effects(ordinal, [(weight, gone[number]) for number, weight in of_step.items()], num_rows)
        return tuple(effects)

    def _ordinals_that_span(self, state: int) -> list[int]:
        # Kept: data files of equal terms ask for the same few states.
        found = self._spanning.get(state)
        if found is None:
            spans = self._spans
            found = self._spanning[state] = [ordinal for low, high, ordinal in spans if low < state <= high]
        return found

    def _gone(
        self, deleted: Mapping[int, BitMap64], changes: Sequence[int], wanted: Collection[int]
    ) -> dict[int, BitMap64]:
        """Positions deleted after each wanted number of changes."""
        by_state: dict[int, list[tuple[int, bool]]] = {}
        for delete_id in deleted:
            for state, comes in self._changes[delete_id]:
                by_state.setdefault(state, []).append((delete_id, comes))
        last = BitMap64()
        gone = {0: last}
        live, fresh = set[int](), set[int]()
        is_shrinking = False
        for number, state in enumerate(changes, 1):
            for delete_id, comes in by_state[state]:
                if comes:
                    fresh.add(delete_id)
                    live.add(delete_id)
                else:
                    is_shrinking = True
                    live.discard(delete_id)
            if number not in wanted:
                continue
            # Most steps only add delete files. Then the bitmap before is extended, not joined from all delete files.
            if is_shrinking:
                last = BitMap64.union(BitMap64(), *(deleted[delete_id] for delete_id in live))
            else:
                last = BitMap64.union(last, *(deleted[delete_id] for delete_id in fresh))
            gone[number] = last
            is_shrinking, fresh = False, set[int]()
        return gone


def _changes_by_delete_file(states: Iterable[DeleteState]) -> dict[int, list[tuple[int, bool]]]:
    """States in which each delete file comes into force (True) or leaves it (False), ascending."""
    changes: dict[int, list[tuple[int, bool]]] = {}
    for state, change in enumerate(states, 1):
        for delete_ids, comes in ((change.dropped, False), (change.added, True)):
            for delete_id in delete_ids:
                changes.setdefault(delete_id, []).append((state, comes))
    return changes


def _delete_files_of(states: Sequence[DeleteState], named: Collection[int]) -> list[int]:
    """Those that a term names, ascending."""
    # Sets are not made for each state: a hundred steps that each add a delete file would list 5,000 of them.
    used, unnamed = set[int](), set[int]()
    for state, change in enumerate(states, 1):
        unnamed.difference_update(change.dropped)
        unnamed.update(change.added)
        if state in named:
            used |= unnamed
            unnamed.clear()
    return sorted(used)


def _net(terms: Iterable[tuple[int, int]], changes: Sequence[int]) -> dict[int, int]:
    """The weight by the number of changes before the state, without those that cancel."""
    weights: dict[int, int] = {}
    for weight, state in terms:
        number = bisect_right(changes, state)
        weights[number] = weights.get(number, 0) + weight
    return {number: weight for number, weight in weights.items() if weight}


def _effects(ordinal: int, terms: Sequence[tuple[int, BitMap64]], num_rows: int) -> list[Effect]:
    """Weights of all terms less those of the terms that delete the row."""
    # A file of 6 rows that stays, while its deletion vector grows from {1} to {1, 4}:
    #   position         0    1    2    3    4    5
    #   -1, live in {1}  -1   .   -1   -1   -1   -1
    #   +1, in {1, 4}    +1   .   +1   +1    .   +1
    #   weight            0   0    0    0   -1    0     so only row 4 is ever decoded
    # All terms together weigh 0; what the deleting terms weigh is subtracted where they delete: 0 at 1, +1 at 4.
    everywhere = sum(weight for weight, _ in terms)
    by_less = _by_weight_less(terms)
    found = []
    if everywhere:
        deviating = BitMap64.union(BitMap64(), *by_less.values())
        found.append(
            Effect(change_ordinal=ordinal, weight=everywhere, rows=RowSet(positions=deviating, is_all_but=True))
        )
    found += [
        Effect(change_ordinal=ordinal, weight=everywhere - less, rows=RowSet(positions=rows))
        for less, rows in sorted(by_less.items(), reverse=True)
        if everywhere - less
    ]
    return [effect for effect in found if effect.rows.count(num_rows)]


def _by_weight_less(terms: Sequence[tuple[int, BitMap64]]) -> dict[int, BitMap64]:
    """Deleted positions by the sum of their terms' weights, without the sum 0."""
    # Split by sums, and not counted row by row: bitmaps stay small however many rows the file has.
    #   after -1 {1}      -1: {1}
    #   after +1 {1, 4}    0: {1}   +1: {4}
    parts: dict[int, BitMap64] = {0: BitMap64()}
    for weight, gone in terms:
        # From positions that are in no part yet, nothing was subtracted.
        new: dict[int, BitMap64] = {weight: BitMap64.difference(gone, *parts.values())}
        for less, rows in parts.items():
            for sum_less, part in ((less + weight, rows & gone), (less, rows - gone)):
                new[sum_less] = new[sum_less] | part if sum_less in new else part
        parts = new
    return {less: rows for less, rows in parts.items() if less and rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEffects:
    """A data file with its delete files applied.

    Attributes:
        effects: by ordinal; each has a weight other than 0 and at least one row.
    """

    data_file: DataFile
    effects: tuple[Effect, ...]

    @property
    def key(self) -> tuple[str, int | None]:
        """Key of the file in its map task: it may be there twice, with other constants or row ids."""
        return self.data_file.identity, self.data_file.first_row_id

    @property
    def touched(self) -> RowSet:
        """The rows that any effect needs."""
        return RowSet.union_of([effect.rows for effect in self.effects])

    def touched_count(self) -> int:
        """Number of those rows."""
        return self.touched.count(self.data_file.record_count)


def task_file_effects(
    task: MapTask,
    *,
    equality_schemas: Mapping[tuple[int, ...], TableSchema],
    reader: FileReader,
    memory_bytes: int,
) -> list[FileEffects]:
    """The files of a map task, each with the effects that its terms add up to.

    Args:
        equality_schemas: of its equality delete files, by their field ids.
        memory_bytes: of the map task, which reads no row before this is done.
    """
    if not task.delete_files:
        return _file_effects(task, lambda *_: {})
    # Loaded here, because a task without delete files needs none of its modules.
    from icefloe.iceberg.deletes.deleted_positions import DeletedPositions

    deleted = DeletedPositions(
        task.delete_files,
        equality_schemas=equality_schemas,
        reader=reader,
        data_files=[work.data_file for work in task.files],
        memory_bytes=memory_bytes // 2,
    )
    return _file_effects(task, deleted.of)


def _file_effects(
    task: MapTask, deleted_by: Callable[[DataFile, Sequence[int]], Mapping[int, BitMap64]]
) -> list[FileEffects]:
    terms = [TermEffects(each) for each in task.terms]
    rows = []
    for work in task.files:
        effects = terms[work.terms].on(work.data_file.record_count, partial(deleted_by, work.data_file))
        rows.append(FileEffects(data_file=work.data_file, effects=effects))
    return rows
