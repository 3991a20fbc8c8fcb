"""Files rewritten in place, with columns whose bytes stayed equal: only the other columns are decoded of both files.

The rows that differ in those are fetched by position. Columns that are equal are read of one of the files, and only if
some row differs.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from icefloe.batch.map.hashed_rows import HashedRows, MemoryBudget
from icefloe.batch.map.read_tally import FileTally
from icefloe.batch.rows.file_effects import FileEffects
from icefloe.batch.rows.row_reader import TableRowReader
from icefloe.batch.rows.row_set import Positions
from icefloe.changes.alignment import aligned_batches, differing_rows
from icefloe.changes.row_hash.row_hashes import RowHashes, row_hashes_of_batch

LEAST_UPDATED_ROWS = 50_000
"""With fewer rows in both files, decoding them takes less time than opening them once more on an object store."""


def compare_updated(
    removed: FileEffects, added: FileEffects, reader: TableRowReader, *, budget: MemoryBudget
) -> tuple[HashedRows, HashedRows] | None:
    """The rows of two files that differ by position, kept in memory.

    Args:
        removed: one file.
        added: another file with as many rows.
        reader: reads the files.
        budget: memory for the rows that differ.

    Returns:
        The hashed rows of each file; None if there are few rows, if the columns of the files are not equal, or if
        memory is short.
    """
    num_rows = removed.data_file.record_count
    if 2 * num_rows < LEAST_UPDATED_ROWS:
        return None
    identical = reader.columns_of_equal_bytes(removed.data_file, added.data_file)
    if not identical:
        return None
    sides = _Side(removed, reader), _Side(added, reader)
    names = reader.shape.read.arrow.names
    differing = [name for name in names if name not in identical]
    if not differing:
        # The footers were checked against the planned number of rows.
        for side in sides:
            side.tally.add_all(num_rows)
        return sides[0].hashed_rows([]), sides[1].hashed_rows([])
    positions = _differing_positions(*sides, differing, budget.free_bytes)
    if positions is None:
        return None
    left_bytes = sum(side.kept_bytes for side in sides)
    unchanged = []
    for batch in reader.read_columns_at(added.data_file, [name for name in names if name in identical], positions):
        unchanged.append(batch)
        left_bytes += batch.nbytes
        if left_bytes > budget.free_bytes:
            return None
    budget.take(left_bytes)
    first, second = (side.hashed_rows(unchanged) for side in sides)
    return first, second


def _differing_positions(removed: "_Side", added: "_Side", names: Sequence[str], free_bytes: int) -> Positions | None:
    """Positions of rows that differ in some columns; None if memory is short. Each side keeps its columns of them."""
    found: list[Positions] = [np.zeros(0, np.int64)]
    start = 0
    for one, other in aligned_batches(removed.read(names), added.read(names)):
        rows = differing_rows(one, other)
        found.append(start + rows)
        start += one.num_rows
        if len(rows):
            removed.keep(one, rows)
            added.keep(other, rows)
        if removed.kept_bytes + added.kept_bytes > free_bytes:
            return None
    return np.concatenate(found)


class _Side:
    """One of the files, with the differing columns of the rows that differ."""

    def __init__(self, file: FileEffects, reader: TableRowReader) -> None:
        self.tally = FileTally(file)
        self.kept: list[pa.RecordBatch] = []
        self.kept_bytes = 0
        self._reader = reader

    def read(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some columns of all rows."""
        for batch in self._reader.read_columns(self.tally.file.data_file, names):
            self.tally.add_all(batch.num_rows)
            yield batch

    def keep(self, batch: pa.RecordBatch, rows: Positions) -> None:
        """Keeps rows of a batch of differing columns, text decoded."""
        taken = batch.take(pa.array(rows))
        plain = [column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in taken]
        self.kept.append(pa.RecordBatch.from_arrays(plain, names=batch.schema.names))
        self.kept_bytes += self.kept[-1].nbytes

    def hashed_rows(self, unchanged: Sequence[pa.RecordBatch]) -> HashedRows:
        """The rows that differ, whole.

        Args:
            unchanged: their other columns.
        """
        file = self.tally.file
        kept = [self._reader.joined(file.data_file, *parts) for parts in aligned_batches(self.kept, unchanged)]
        hashes = RowHashes.concat([row_hashes_of_batch(batch, key=self._reader.shape.hash_key) for batch in kept])
        return HashedRows(tally=self.tally, effects=file.effects, hashes=hashes, kept=kept)
