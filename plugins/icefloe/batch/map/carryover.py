"""Carry-over, cancelled before the shuffle: the rows of a group of files that really changed."""

from collections.abc import Iterator, Sequence
from typing import Final

from icefloe.batch.map.cancel import contended_ordinals, effects_left
from icefloe.batch.map.hashed_rows import HashedRows, MemoryBudget, hash_file
from icefloe.batch.map.read_tally import FileTally, ReadTally
from icefloe.batch.map.rewritten_files import align, alignable_pairs
from icefloe.batch.rows.file_effects import FileRows
from icefloe.batch.rows.row_reader import TableRowReader
from icefloe.batch.rows.weighted_rows import WeightedRows
from icefloe.changes.hash_slice import HashSlice
from icefloe.changes.row_hash.row_hashes import row_hashes_of_batch

_BYTES_PER_CANDIDATE: Final = 64
"""A position, a row hash, a copy of it next to the hashes of the other files, and memory to compare them."""
_MIN_SLICE_ROWS: Final = 1 << 16


class CarryOver:
    """Consolidates the rows of a group of files, per ordinal.

    A removed file and an added file of equal length are first compared position by position. If the writer kept the row
    order, that cancels nearly every row without a hash. The rows that differ are hashed and consolidated. So are all
    touched rows of the other files that meet rows of the opposite sign. Surviving rows are taken from memory or read
    again by position. Files that meet no rows of the opposite sign are passed on. If the hashes alone would not fit
    into memory, the files are read once for each slice of the hashes.

    Args:
        files: the group, delete files applied.
        reader: reads the files.
        memory_bytes: bytes that may be kept between reading and handing on.
    """

    def __init__(self, files: Sequence[FileRows], reader: TableRowReader, *, memory_bytes: int) -> None:
        self._files = files
        self._reader = reader
        self._memory_bytes = memory_bytes
        self.tally = ReadTally(files)

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
        aligned = self._aligned(files, budget)
        done = {each.tally.file.key for each in aligned}
        rest = [file for file in files if file.key not in done]
        rows = sum(file.rows_touched() for file in rest)
        slice_rows = max(_MIN_SLICE_ROWS, budget.free_bytes // _BYTES_PER_CANDIDATE)
        budget.take(min(budget.free_bytes, rows * _BYTES_PER_CANDIDATE))
        for part in HashSlice.slices(-(-rows // slice_rows)):
            hashed_rows = [each.within(part) for each in aligned]
            hashed_rows += [hash_file(file, self._reader, budget=budget, part=part) for file in rest]
            for each in hashed_rows:
                self.tally.add_file(each.tally)
            effects = effects_left(hashed_rows, contended)
            # Each file lets go of the batches that it kept as soon as it was handed on.
            while hashed_rows:
                yield from hashed_rows.pop(0).rows(effects.pop(0), self._reader)

    def _aligned(self, files: Sequence[FileRows], budget: MemoryBudget) -> list[HashedRows]:
        if self._reader.shape.row_filter is not None:
            return []  # a filter removes different rows on each side, so equal positions no longer mean the same row
        pairs = (align(removed, added, self._reader, budget=budget) for removed, added in alignable_pairs(files))
        return [hashed_rows for pair in pairs if pair is not None for hashed_rows in pair]
