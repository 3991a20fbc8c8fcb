"""The rows of a data file that a batch touches, the effects on them, and the sums that prove a batch."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import ClassVar, Final, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64

from icefloe.batch.plan_document import FileTerms, MapTask
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
        if self.is_all or not len(positions):
            return np.arange(len(positions))
        first, stop = int(positions[0]), int(positions[-1]) + 1
        if isinstance(self.positions, BitMap64):
            wanted = listed(self.positions & BitMap64(range(first, stop)))
        else:
            wanted = self.positions[slice(*np.searchsorted(self.positions, (first, stop)))]
        # Both ascend, so each wanted position has one place: `np.isin` would sort both again.
        places = np.searchsorted(positions, wanted)
        found = places[positions[places] == wanted]
        return np.delete(np.arange(len(positions)), found) if self.is_all_but else found

    def seen_from(self, positions: Positions) -> "RowSet":
        """The set if only the rows at ``positions`` are left, numbered from 0."""
        own = self.among(positions)
        return RowSet.ALL if len(own) == len(positions) else RowSet(positions=own)


RowSet.ALL = RowSet(positions=BitMap64(), is_all_but=True)


def listed(positions: Positions | BitMap64) -> Positions:
    """Positions as numbers."""
    if isinstance(positions, BitMap64):
        return np.frombuffer(positions.to_array(), np.uint64).view(np.int64)
    return positions


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
    def of(cls, batch: pa.RecordBatch, hashes: RowHashes, *parts: tuple[Positions, Sequence[Effect]]) -> Self:
        """The rows of a batch, once for every effect that they have.

        Args:
            parts: of the batch, each of one file: positions there, and the effects on that file.
        """
        picks, ordinals, weights, start = [], [], [], 0
        for positions, effects in parts:
            for effect in effects:
                picks.append(effect.rows.among(positions) + start)
                ordinals.append(np.full(len(picks[-1]), effect.change_ordinal, np.int32))
                weights.append(np.full(len(picks[-1]), effect.weight, np.int64))
            start += len(positions)
        if len(picks) > 1 or len(picks[0]) < batch.num_rows:
            taken = np.concatenate(picks)
            batch, hashes = batch.take(pa.array(taken)), hashes.take(taken)
        return cls(
            batch=batch,
            row_hashes=hashes,
            change_ordinals=np.concatenate(ordinals),
            weights=np.concatenate(weights),
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
        steps = (list(of_step) for _, of_step in groupby(terms.terms, key=itemgetter(0)))
        # With the first and last state of each step, and what its terms weigh together.
        self._steps = [
            (
                of_step,
                min(state for *_, state in of_step),
                max(state for *_, state in of_step),
                sum(w for _, w, _ in of_step),
            )
            for of_step in steps
        ]
        # States in which each delete file comes into force or leaves it.
        self._changes: dict[int, list[int]] = {}
        for state, change in enumerate(terms.delete_states, 1):
            for delete_id in (*change.dropped, *change.added):
                self._changes.setdefault(delete_id, []).append(state)

    def on(self, num_rows: int, deleted_by: Callable[[Sequence[int]], Mapping[int, BitMap64]]) -> tuple[Effect, ...]:
        """Effects by ordinal, each with a weight other than 0 and at least one row."""
        found = deleted_by(sorted(self._changes)) if self._changes else {}
        states, gone = self._gone({delete_id: positions for delete_id, positions in found.items() if positions})
        effects: list[Effect] = []
        for of_step, low, high, everywhere in self._steps:
            # States between two changes have the same rows: terms of such states cancel without a look at rows.
            if not everywhere and bisect_right(states, low) == bisect_right(states, high):
                continue
            weights = Counter[int]()
            for _, weight, state in of_step:
                weights[bisect_right(states, state)] += weight
            terms = [(weight, gone[number]) for number, weight in weights.items() if weight]
            effects += _effects(of_step[0][0], terms, num_rows)
        return tuple(effects)

    def _gone(self, deleted: Mapping[int, BitMap64]) -> tuple[list[int], list[BitMap64]]:
        """States that change the rows of the file, and the positions deleted after each number of these changes."""
        by_state: dict[int, set[int]] = {}
        for delete_id in deleted:
            for state in self._changes[delete_id]:
                by_state.setdefault(state, set()).add(delete_id)
        states, gone, live = sorted(by_state), [BitMap64()], set[int]()
        for state in states:
            changed = by_state[state]
            # Most steps only add delete files. Then the bitmap before is extended, not joined from all delete files.
            known = BitMap64() if changed & live else gone[-1]
            joined = live ^ changed if changed & live else changed
            gone.append(BitMap64.union(known, *(deleted[delete_id] for delete_id in joined)))
            live ^= changed
        return states, gone


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
        bitmaps = [(BitMap64(effect.rows.positions), effect.rows.is_all_but) for effect in self.effects]
        listed = BitMap64.union(BitMap64(), *(bitmap for bitmap, is_all_but in bitmaps if not is_all_but))
        left_out = [bitmap for bitmap, is_all_but in bitmaps if is_all_but]
        if not left_out:
            return RowSet(positions=listed)
        # All but {2, 5} or all but {5, 7} or {9} is all but {5}.
        return RowSet(positions=BitMap64.intersection(*left_out) - listed, is_all_but=True)

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
