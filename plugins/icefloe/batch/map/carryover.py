"""Carry-over, cancelled before the shuffle: the rows of a group of files that really changed."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from icefloe.batch.fast_ways import COMPARING_WAYS, FastWay
from icefloe.batch.map.hashed_rows import HashedRows, MemoryBudget, hash_file
from icefloe.batch.map.read_tally import FileTally, ReadTally
from icefloe.batch.rows.file_effects import FileRows
from icefloe.batch.rows.row_reader import TableRowReader
from icefloe.batch.rows.row_set import RowSet
from icefloe.batch.rows.weighted_rows import Effect, WeightedRows
from icefloe.changes.consolidate import surviving_rows
from icefloe.changes.hash_slice import HashSlice
from icefloe.changes.row_hash.row_hashes import RowHashes, row_hashes_of_batch

_BYTES_PER_HASHED_ROW: Final = 64
"""A position, a row hash, a copy of it next to the hashes of the other files, and memory to compare them."""
_MIN_SLICE_ROWS: Final = 1 << 16


class CarryOver:
    """Consolidates the rows of a group of files, per ordinal.

    If the pipeline trusts row lineage, its two columns tell which rows differ, and nothing else is decoded of the rest.
    Otherwise, a removed file and an added file of equal length are first compared position by position, without columns
    whose bytes are equal. If the writer kept the row order, that cancels nearly every row without a hash. If it did
    not, or the lengths differ, likely pairs of rows are found by a few columns and compared. The rows that differ are
    hashed and consolidated. So are all touched rows of the other files that meet rows of the opposite sign. Surviving
    rows are taken from memory or read again by position. Files that meet no rows of the opposite sign are passed on. If
    the hashes alone would not fit into memory, the files are read once for each slice of the hashes.

    Args:
        files: the group, delete files applied.
        reader: reads the files.
        memory_bytes: bytes that may be kept between reading and handing on.
        fast_ways: ways that may be tried before all rows are hashed.

    Attributes:
        tally: rows read.
        files_by_way: number of files that each fast way compared; ``hashed`` for files that none fits.
    """

    def __init__(
        self,
        files: Sequence[FileRows],
        reader: TableRowReader,
        *,
        memory_bytes: int,
        fast_ways: Collection[FastWay] = COMPARING_WAYS,
    ) -> None:
        self._files = files
        self._reader = reader
        self._memory_bytes = memory_bytes
        # A filter removes different rows on each side, so positions no longer mean the same rows.
        self._fast_ways = fast_ways if reader.shape.row_filter is None else ()
        self.tally = ReadTally(files)
        self.files_by_way: Counter[str] = Counter()

    @property
    def decoded_bytes(self) -> int:
        """Bytes decoded from the files until now."""
        return self._reader.decoded.total

    def changed_rows(self) -> Iterator[WeightedRows]:
        """The rows whose weights do not cancel, file by file."""
        contended = contended_ordinals(self._files)
        waiting: list[FileRows] = []
        for file in self._files:
            if any(effect.change_ordinal in contended for effect in file.effects):
                waiting.append(file)
            else:
                yield from self._every_row(file)
        if waiting:
            yield from self._consolidated(waiting, contended)

    def _every_row(self, file: FileRows) -> Iterator[WeightedRows]:
        tally = FileTally(file)
        for rows in self._reader.read(file):
            tally.add(rows)
            plain, hashes = self._reader.plain(rows.batch), row_hashes_of_batch(rows.batch)
            yield WeightedRows.of(plain, hashes, rows.positions, file.effects)
        self.tally.add_file(tally)

    def _consolidated(self, files: Sequence[FileRows], contended: frozenset[int]) -> Iterator[WeightedRows]:
        budget = MemoryBudget(self._memory_bytes)
        # A row may also have moved to another file, so rows that differ by position are compared with those of all
        # files:
        #   removed   a: 1 2 3 4 (aligned: 3)    b: 9 5 (every row)
        #   added     a': 1 2 9 4 (aligned: 9)
        #   left      -3 and -5: row 9 moved from b to a'
        compared: list[HashedRows] = []
        for way in FastWay:
            compared += self._compared(way, _others(files, compared), budget)
        rest = _others(files, compared)
        self.files_by_way["hashed"] += len(rest)
        rows = sum(file.rows_touched() for file in rest)
        slice_rows = max(_MIN_SLICE_ROWS, budget.free_bytes // _BYTES_PER_HASHED_ROW)
        budget.take(min(budget.free_bytes, rows * _BYTES_PER_HASHED_ROW))
        for hash_slice in HashSlice.slices(-(-rows // slice_rows)):
            hashed_rows = [each.within(hash_slice) for each in compared]
            hashed_rows += [hash_file(file, self._reader, budget=budget, hash_slice=hash_slice) for file in rest]
            for each in hashed_rows:
                self.tally.add_file(each.tally)
            effects = effects_left(hashed_rows, contended)
            # Each file lets go of the batches that it kept as soon as it was handed on.
            while hashed_rows:
                yield from hashed_rows.pop(0).rows(effects.pop(0), self._reader)

    def _compared(self, way: FastWay, files: Sequence[FileRows], budget: MemoryBudget) -> list[HashedRows]:
        """The rows that a fast way leaves of the files that it fits."""
        if way not in self._fast_ways:
            return []
        sides_of, compare = _comparison(way)
        found = (compare(*sides, self._reader, budget=budget) for sides in sides_of(files))
        left = [hashed_rows for each in found if each is not None for hashed_rows in each]
        self.files_by_way[way] += len(left)
        return left


def _comparison(way: FastWay) -> tuple[Callable[..., Iterator[Any]], Callable[..., Any]]:
    """The functions by which a fast way puts removed and added files together and compares them."""
    # Loaded here, because a task whose files only add rows needs none of them.
    if way is FastWay.LINEAGE:
        from icefloe.batch.map.trusted_lineage import files_with_lineage, rows_by_lineage

        return files_with_lineage, rows_by_lineage
    if way is FastWay.MATCHED:
        from icefloe.batch.map.matched_files import match, matchable_pairs

        return matchable_pairs, match
    from icefloe.batch.map.rewritten_files import align, alignable_pairs

    if way is FastWay.ALIGNED:
        return alignable_pairs, align
    from icefloe.batch.map.updated_columns import compare_updated

    return alignable_pairs, compare_updated


def _others(files: Sequence[FileRows], done: Sequence[HashedRows]) -> list[FileRows]:
    keys = {each.tally.file.key for each in done}
    return [file for file in files if file.key not in keys]


def contended_ordinals(files: Sequence[FileRows]) -> frozenset[int]:
    """The ordinals in which rows of these files can cancel one for one.

    If a step lists a file more than once, the file has a greater weight, and the cancelling is left to the reduce side.
    """
    weights: dict[int, set[int]] = {}
    for file in files:
        for effect in file.effects:
            weights.setdefault(effect.change_ordinal, set()).add(effect.weight)
    return frozenset(ordinal for ordinal, found in weights.items() if found == {-1, 1})


def effects_left(hashed_rows: Sequence[HashedRows], contended: frozenset[int]) -> list[list[Effect]]:
    """The effects of each file: on the surviving rows in contended ordinals, unchanged in the others."""
    effects = [[effect for effect in file.effects if effect.change_ordinal not in contended] for file in hashed_rows]
    for ordinal in sorted(contended):
        # Of a side, the rows of all files are compared end to end, then cut back to their files:
        #   added rows   a: 0 1 2   b: 0 1      bounds 0 3 5
        #   surviving    1, 4                   row 1 of a, row 1 of b
        sides = [[*_rows_of(hashed_rows, ordinal, weight)] for weight in (-1, 1)]
        surviving = surviving_rows(
            *(RowHashes.concat([hashed_rows[index].hashes.take(rows) for index, rows in side]) for side in sides)
        )
        for side, weight, positions in zip(sides, (-1, 1), surviving, strict=True):
            bounds = np.cumsum([0, *(len(rows) for _, rows in side)])
            cuts = pairwise(np.searchsorted(positions, bounds))
            for (index, rows), start, (first, last) in zip(side, bounds[:-1], cuts, strict=True):
                kept = RowSet(positions=rows[positions[first:last] - start])
                effects[index].append(Effect(change_ordinal=ordinal, weight=weight, rows=kept))
    return effects


def _rows_of(hashed_rows: Sequence[HashedRows], ordinal: int, weight: int) -> list[tuple[int, np.ndarray]]:
    """Pairs of a file's index and its hashed rows, for one step and sign."""
    return [
        (index, effect.rows.among(np.arange(len(file.hashes))))
        for index, file in enumerate(hashed_rows)
        for effect in file.effects
        if (effect.change_ordinal, effect.weight) == (ordinal, weight)
    ]
