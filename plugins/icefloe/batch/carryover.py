"""Carry-over, cancelled before the shuffle: the rows of a group of files that really changed."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from icefloe.batch.alignment import align, alignable_pairs
from icefloe.batch.candidates import Candidates, hash_file
from icefloe.batch.changed_rows import ChangedRows, Effect
from icefloe.batch.document import FileWork
from icefloe.batch.effects import contended_ordinals, effects_left
from icefloe.batch.memory_budget import MemoryBudget
from icefloe.batch.read_tally import ReadTally
from icefloe.batch.row_reader import TableRowReader
from icefloe.changes.hash_slice import HashSlice
from icefloe.changes.row_hash import row_hashes_of_batch

__all__ = ["CarryOver"]

_BYTES_PER_CANDIDATE: Final = 56
"""A row hash, a copy of it beside those of the other files, and what comparing them needs."""
_MIN_SLICE_ROWS: Final = 1 << 16


class CarryOver:
    """Consolidates the rows of a group of files, per ordinal.

    A file removed and a file added of equal length are first compared position by position: where a writer kept the row
    order, that cancels nearly every row without a hash. What differs there, and every row of the other files that meet
    rows of the other sign, is hashed and consolidated; what survives is taken from memory or read again by position.
    Files that meet nothing of the other sign are passed on. Where the hashes alone would not fit into memory, the files
    are gone through once for each slice of them.

    Args:
        files: the group.
        reader: how to read them.
        memory_bytes: what may be kept between reading and handing on.
    """

    def __init__(self, files: Sequence[FileWork], reader: TableRowReader, *, memory_bytes: int) -> None:
        self._files = files
        self._reader = reader
        self._memory_bytes = memory_bytes
        self.tally = ReadTally(files)

    def changed_rows(self) -> Iterator[ChangedRows]:
        """The rows whose weights do not cancel, file by file."""
        contended = contended_ordinals(self._files)
        waiting: list[FileWork] = []
        for work in self._files:
            if any(ordinal in contended for ordinal, _ in work.weights):
                waiting.append(work)
            else:
                yield from self._every_row(work)
        if waiting:
            yield from self._consolidated(waiting, contended)

    def _every_row(self, work: FileWork) -> Iterator[ChangedRows]:
        rows = 0
        effects = [Effect(change_ordinal=ordinal, weight=weight) for ordinal, weight in work.weights]
        for first, batch in self._reader.read_file(work):
            rows += batch.num_rows
            positions = np.arange(first, first + batch.num_rows)
            yield ChangedRows.of(self._reader.plain(batch), row_hashes_of_batch(batch), positions, effects)
        self.tally.add_file(work, rows)

    def _consolidated(self, files: Sequence[FileWork], contended: frozenset[int]) -> Iterator[ChangedRows]:
        budget = MemoryBudget(self._memory_bytes)
        aligned = self._aligned(files, budget)
        done = {each.work.data_file.path for each in aligned}
        rest = [work for work in files if work.data_file.path not in done]
        rows = sum(work.data_file.record_count for work in rest)
        slice_rows = max(_MIN_SLICE_ROWS, budget.free_bytes // _BYTES_PER_CANDIDATE)
        budget.take(min(budget.free_bytes, rows * _BYTES_PER_CANDIDATE))
        for part in HashSlice.slices(-(-rows // slice_rows)):
            candidates = [each.within(part) for each in aligned]
            candidates += [self._hashed(work, part, budget) for work in rest]
            effects = effects_left(candidates, contended)
            while candidates:
                yield from candidates.pop(0).rows(effects.pop(0), self._reader)

    def _aligned(self, files: Sequence[FileWork], budget: MemoryBudget) -> list[Candidates]:
        found: list[Candidates] = []
        for removed, added in alignable_pairs(files):
            pair = align(removed, added, self._reader, budget=budget)
            if pair is not None:
                found.extend(pair)
        for each in found:
            self.tally.add_file(each.work, each.rows_read)
        return found

    def _hashed(self, work: FileWork, part: HashSlice, budget: MemoryBudget) -> Candidates:
        candidates = hash_file(work, self._reader, budget=budget, part=part)
        self.tally.add_file(work, candidates.rows_read)
        return candidates
