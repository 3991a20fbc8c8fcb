"""Carry-over, cancelled before the shuffle."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from icefloe.batch.map.hashed_rows import (
    BYTES_PER_HASHED_ROW,
    FileTally,
    HashedRows,
    MemoryBudget,
    ReadTally,
    hash_file,
)
from icefloe.batch.map.rewritten_files import FastWay, alignable_pairs, compare_rewritten, compare_updated
from icefloe.batch.rows.file_effects import Effect, FileEffects, Positions, RowSet, WeightedRows
from icefloe.batch.rows.row_reader import TableRowReader
from icefloe.changes.consolidate import surviving_rows
from icefloe.changes.hash_index import HashSlice
from icefloe.changes.row_hash.row_hashes import RowHashes

_SMALL_ROWS: Final = 4096
_SMALL_BYTES: Final = 256 << 10
_COMBINED_BYTES: Final = 1 << 20
_MIN_SLICE_ROWS: Final = 1 << 16


class CarryOver:
    """Consolidates the rows of a group of files, per ordinal, by each `FastWay` that fits and otherwise by hashes.

    Files that meet no rows of the opposite sign are passed on. Surviving rows are taken from memory or read again by
    position. If the hashes alone would not fit into memory, the files are read once for each slice of the hashes.
    """

    def __init__(
        self,
        files: Sequence[FileEffects],
        reader: TableRowReader,
        *,
        memory_bytes: int,  # that may be kept between reading and handing on
        fast_ways: Collection[FastWay] = tuple(FastWay),
    ) -> None:
        self._files = files
        self._reader = reader
        self._memory_bytes = memory_bytes
        # A filter removes different rows on each side, so positions no longer mean the same rows.
        self._fast_ways = fast_ways if reader.shape.row_filter is None else ()
        self.tally = ReadTally(files)
        self.files_by_way: Counter[str] = Counter()  # files that each way compared; ``hashed``: the others

    def changed_rows(self) -> Iterator[WeightedRows]:
        """The rows whose weights do not cancel, file by file."""
        contended = contended_ordinals(self._files)
        waiting: list[FileEffects] = []
        passed_on: list[FileEffects] = []
        for file in self._files:
            meets_others = any(effect.change_ordinal in contended for effect in file.effects)
            (waiting if meets_others else passed_on).append(file)
        yield from self._every_row(passed_on)
        if waiting:
            yield from self._consolidated(waiting, contended)

    def _every_row(self, files: Sequence[FileEffects]) -> Iterator[WeightedRows]:
        """The rows of files; small batches wait until they are enough to be hashed together."""
        hash_key = self._reader.shape.hash_key
        waiting: list[pa.RecordBatch] = []
        parts: list[tuple[Positions, Sequence[Effect]]] = []
        waiting_rows = waiting_bytes = 0
        for file in files:
            tally = FileTally(file)
            for rows in self._reader.read(file):
                tally.add(rows)
                plain = self._reader.with_valid_values(file.data_file, self._reader.plain(rows.batch))
                part = rows.positions, file.effects
                if plain.num_rows > _SMALL_ROWS or plain.nbytes > _SMALL_BYTES:
                    yield WeightedRows.of(plain, RowHashes.of_batch(rows.batch, key=hash_key), part)
                    continue
                waiting.append(plain)
                parts.append(part)
                waiting_rows += plain.num_rows
                waiting_bytes += plain.nbytes
                if waiting_rows >= _SMALL_ROWS or waiting_bytes >= _COMBINED_BYTES:
                    yield _combined(waiting, parts, hash_key)
                    waiting, parts, waiting_rows, waiting_bytes = [], [], 0, 0
            self.tally.add_file(tally)
        if waiting:
            yield _combined(waiting, parts, hash_key)

    def _consolidated(self, files: Sequence[FileEffects], contended: frozenset[int]) -> Iterator[WeightedRows]:
        budget = MemoryBudget(self._memory_bytes)
        # A row may also have moved to another file, so rows that differ by position are compared with those of all
        # files:
        #   removed   a: 1 2 3 4 (aligned: 3)    b: 9 5 (every row)
        #   added     a': 1 2 9 4 (aligned: 9)
        #   left      -3 and -5: row 9 moved from b to a'
        compared = self._compared_by_any_way(files, budget)
        rest = _others(files, compared)
        self.files_by_way["hashed"] += len(rest)
        rows = sum(file.touched_count() for file in rest)
        slice_rows = max(_MIN_SLICE_ROWS, budget.free_bytes // BYTES_PER_HASHED_ROW)
        budget.take(min(budget.free_bytes, rows * BYTES_PER_HASHED_ROW))
        for hash_slice in HashSlice.slices(-(-rows // slice_rows)):
            hashed_rows = [each.within(hash_slice) for each in compared]
            hashed_rows += [hash_file(file, self._reader, budget=budget, hash_slice=hash_slice) for file in rest]
            for each in hashed_rows:
                self.tally.add_file(each.tally)
            effects = effects_left(hashed_rows, contended)
            # Each file lets go of the batches that it kept as soon as it was handed on.
            while hashed_rows:
                yield from hashed_rows.pop(0).rows(effects.pop(0), self._reader)

    def _compared_by_any_way(self, files: Sequence[FileEffects], budget: MemoryBudget) -> list[HashedRows]:
        compared: list[HashedRows] = []
        if FastWay.IDENTICAL in self._fast_ways:
            for pair in alignable_pairs(files):
                compared += compare_updated(*pair, self._reader, budget=budget) or ()
            self.files_by_way[FastWay.IDENTICAL] += len(compared)
        ways = {FastWay.ALIGNED, FastWay.MATCHED}.intersection(self._fast_ways)
        if ways:
            others = _others(files, compared)
            for taken, *sides in compare_rewritten(others, self._reader, ways=ways, budget=budget):
                self.files_by_way[taken or "hashed"] += len(sides)
                compared += sides
        return compared


def _combined(
    batches: Sequence[pa.RecordBatch], parts: Sequence[tuple[Positions, Sequence[Effect]]], hash_key: int
) -> WeightedRows:
    batch = pa.concat_batches(batches)
    return WeightedRows.of(batch, RowHashes.of_batch(batch, key=hash_key), *parts)


def _others(files: Sequence[FileEffects], done: Sequence[HashedRows]) -> list[FileEffects]:
    keys = {each.tally.file.key for each in done}
    return [file for file in files if file.key not in keys]


def contended_ordinals(files: Sequence[FileEffects]) -> frozenset[int]:
    """The ordinals in which rows of these files can cancel one for one."""
    weights: dict[int, set[int]] = {}
    for file in files:
        for effect in file.effects:
            weights.setdefault(effect.change_ordinal, set()).add(effect.weight)
    # A file that a step lists more than once has a greater weight: its rows cancel on the reduce side.
    return frozenset(ordinal for ordinal, found in weights.items() if found == {-1, 1})


def effects_left(hashed_rows: Sequence[HashedRows], contended: frozenset[int]) -> list[list[Effect]]:
    """The effects of each file: on surviving rows in contended ordinals, otherwise unchanged."""
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
    """Pairs of a file's index and its hashed rows."""
    return [
        (index, effect.rows.among(np.arange(len(file.hashes))))
        for index, file in enumerate(hashed_rows)
        for effect in file.effects
        if (effect.change_ordinal, effect.weight) == (ordinal, weight)
    ]
