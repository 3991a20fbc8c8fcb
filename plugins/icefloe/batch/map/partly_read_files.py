"""Files of which a few columns show the changed rows: by trusted row lineage, or by bytes that differ."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from icefloe.batch.map.hashed_rows import FileTally, HashedRows, MemoryBudget, seen_from
from icefloe.batch.rows.file_effects import FileEffects, Positions
from icefloe.batch.rows.row_reader import TableRowReader
from icefloe.changes.alignment import aligned_batches, differing_rows
from icefloe.changes.columns import rows_not_copied
from icefloe.changes.row_hash.row_hashes import RowHashes

_BYTES_PER_ROW: Final = 72
"""A row id, a sequence number, a position, and memory to find copies."""
_LEAST_COPIED: Final = 0.5
"""If fewer rows are copies, comparing values in order is cheaper than reading so many rows by position."""

Files = Sequence[FileEffects]

LEAST_UPDATED_ROWS = 50_000
"""With fewer rows in both files, decoding them takes less time than opening them once more on an object store."""


def files_with_lineage(files: Files) -> Iterator[tuple[Files, Files]]:
    """Removed and added files of a step that have row ids: in pairs, or all together if their numbers differ."""
    by_ordinal: dict[int, tuple[list[FileEffects], list[FileEffects]]] = {}
    for file in files:
        if _has_lineage(file):
            [effect] = file.effects
            by_ordinal.setdefault(effect.change_ordinal, ([], []))[effect.weight > 0].append(file)
    for removed, added in by_ordinal.values():
        if len(removed) == len(added):
            # The plan has files in the order of their bounds, so the first removed file became the first added file.
            yield from (([one], [other]) for one, other in zip(removed, added, strict=True))
        elif removed and added:
            yield removed, added


def _has_lineage(file: FileEffects) -> bool:
    if file.data_file.first_row_id is None or len(file.effects) != 1:
        return False
    [effect] = file.effects
    return abs(effect.weight) == 1 and effect.rows.is_all_but


def rows_by_lineage(
    removed: Files, added: Files, reader: TableRowReader, *, budget: MemoryBudget
) -> list[HashedRows] | None:
    """The rows that are left if copied rows cancel."""
    rows = sum(file.touched_count() for file in (*removed, *added))
    if rows * _BYTES_PER_ROW > budget.free_bytes:
        return None
    sides = [[_FileLineage(file, reader) for file in side] for side in (removed, added)]
    if any(not each.is_whole for side in sides for each in side):
        return None
    not_copied = rows_not_copied(*(np.concatenate(numbers) for side in sides for numbers in _columns(side)))
    if not_copied is None or sum(map(len, not_copied)) > (1 - _LEAST_COPIED) * rows:
        return None
    found = []
    for side, of_side in zip(sides, not_copied, strict=True):
        bounds = np.cumsum([0, *(len(each.positions) for each in side)])
        cuts = pairwise(np.searchsorted(of_side, bounds))
        for each, start, (first, last) in zip(side, bounds[:-1], cuts, strict=True):
            found.append(each.hashed(each.positions[of_side[first:last] - start], reader, budget))
    return found


def _columns(side: "Sequence[_FileLineage]") -> Iterator[list[Positions]]:
    yield [each.row_ids for each in side]
    yield [each.sequence_numbers for each in side]


class _FileLineage:
    def __init__(self, file: FileEffects, reader: TableRowReader) -> None:
        self.tally = FileTally(file)
        positions, batches = [], []
        for rows in reader.read_lineage(file):
            self.tally.add(rows)
            positions.append(rows.positions)
            batches.append(rows.batch)
        self.positions = np.concatenate(positions)
        table = pa.Table.from_batches(batches)
        self.is_whole = not any(column.null_count for column in table.columns)
        self.row_ids, self.sequence_numbers = (column.to_numpy() for column in table.columns)

    def hashed(self, left: Positions, reader: TableRowReader, budget: MemoryBudget) -> HashedRows:
        """The rows that are left, kept if memory allows."""
        hashes, kept, kept_bytes = [], [], 0
        for batch in reader.read_rows(self.tally.file.data_file, left):
            hashes.append(RowHashes.of_batch(batch, key=reader.shape.hash_key))
            kept_bytes += batch.nbytes
            if kept_bytes <= budget.free_bytes:
                kept.append(batch)
        is_kept = budget.take(kept_bytes)
        return HashedRows(
            tally=self.tally,
            effects=seen_from(self.tally.file.effects, left),
            hashes=RowHashes.concat(hashes),
            kept=kept if is_kept else None,
            places=None if is_kept else left,
        )


def compare_updated(
    removed: FileEffects, added: FileEffects, reader: TableRowReader, *, budget: MemoryBudget
) -> tuple[HashedRows, HashedRows] | None:
    """The rows of two files that differ by position, kept in memory."""
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
    """None if memory is short. Each side keeps its columns of the rows that differ."""
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
        for batch in self._reader.read_columns(self.tally.file.data_file, names):
            self.tally.add_all(batch.num_rows)
            yield batch

    def keep(self, batch: pa.RecordBatch, rows: Positions) -> None:
        taken = batch.take(pa.array(rows))
        plain = [column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in taken]
        self.kept.append(pa.RecordBatch.from_arrays(plain, names=batch.schema.names))
        self.kept_bytes += self.kept[-1].nbytes

    def hashed_rows(self, unchanged: Sequence[pa.RecordBatch]) -> HashedRows:
        file = self.tally.file
        kept = [self._reader.joined(file.data_file, *parts) for parts in aligned_batches(self.kept, unchanged)]
        hashes = RowHashes.concat([RowHashes.of_batch(batch, key=self._reader.shape.hash_key) for batch in kept])
        return HashedRows(tally=self.tally, effects=file.effects, hashes=hashes, kept=kept)
