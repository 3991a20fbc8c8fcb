"""Rewritten files whose rows moved: likely pairs of rows are found by a few columns, then compared in all columns.

Both files are read twice: first the few columns, then everything. If the rows kept their order, as after a DELETE, the
second read holds no rows, as in `rewritten_files`. Otherwise it holds the removed rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.batch.map.hashed_rows import HashedRows, MemoryBudget
from icefloe.batch.map.read_tally import FileTally
from icefloe.batch.map.rewritten_files import is_whole
from icefloe.batch.rows.file_effects import FileRows
from icefloe.batch.rows.row_reader import TableRowReader
from icefloe.changes.alignment import aligned_batches, differing_rows, differing_values
from icefloe.changes.matching import MOST_MATCHED_ROWS, Digests, digests_of, likely_pairs, telling_columns
from icefloe.changes.row_hash.row_hashes import RowHashes, row_hashes_of_batch
from icefloe.iceberg.schemas.row_lineage import ROW_ID

_BYTES_PER_ROW: Final = 64
"""A digest, a partner, and memory to find it."""
_SAMPLE_ROWS: Final = 8_192
LEAST_MATCHED_ROWS = 50_000
"""With fewer rows in both files, hashing takes less time than opening them once more on an object store."""
_LEAST_PAIRED: Final = 0.5
"""If fewer rows have a partner, hashing whole rows is cheaper."""
_MOST_DIFFERING: Final = 0.25
"""If more pairs turn out to differ, hashing whole rows is cheaper."""


def matchable_pairs(files: Sequence[FileRows]) -> Iterator[tuple[FileRows, FileRows]]:
    """Pairs of a removed and an added file of one step, both whole; none in steps that change the number of files."""
    by_ordinal: dict[int, tuple[list[FileRows], list[FileRows]]] = {}
    for file in files:
        for side, weight in enumerate((-1, 1)):
            if is_whole(file, weight):
                by_ordinal.setdefault(file.effects[0].change_ordinal, ([], []))[side].append(file)
    for removed, added in by_ordinal.values():
        # The plan has files in the order of their bounds, so the first removed file became the first added file.
        if len(removed) == len(added):
            yield from zip(removed, added, strict=True)


def match(
    removed: FileRows, added: FileRows, reader: TableRowReader, *, budget: MemoryBudget
) -> tuple[HashedRows, HashedRows] | None:
    """The rows of two files that are left if equal rows cancel, kept in memory.

    Args:
        removed: one file.
        added: another file.
        reader: reads the files.
        budget: memory for digests, for rows that are left and, if rows moved, for the removed rows.

    Returns:
        The hashed rows of each file; None if there are few rows, if few of them match, or memory is short.
    """
    counts = removed.data_file.record_count, added.data_file.record_count
    free_bytes = budget.free_bytes - _BYTES_PER_ROW * sum(counts)
    if not min(counts) or not LEAST_MATCHED_ROWS <= sum(counts) <= MOST_MATCHED_ROWS or free_bytes < 0:
        return None
    columns = _telling_columns(removed, reader)
    if not columns:
        return None
    partners = likely_pairs(*(_digests(file, columns, reader) for file in (removed, added)))
    paired = partners[partners >= 0]
    if len(paired) < _LEAST_PAIRED * min(counts):
        return None
    sides = _Side(tally=FileTally(removed), reader=reader), _Side(tally=FileTally(added), reader=reader)
    if (paired[1:] > paired[:-1]).all():
        is_done = _compare_in_order(*sides, partners, free_bytes)
    else:
        is_done = _compare_anywhere(*sides, partners, free_bytes)
    if not is_done:
        return None
    budget.take(min(budget.free_bytes, sum(side.left_bytes for side in sides)))
    first, second = (side.hashed_rows() for side in sides)
    return first, second


def _telling_columns(file: FileRows, reader: TableRowReader) -> list[str]:
    """Names of columns that tell the rows at the beginning of a file apart."""
    batch = next(reader.read_columns(file.data_file, None, batch_rows=_SAMPLE_ROWS), None)
    if batch is None:
        return []
    # A name with a dot is taken for a path. Row ids of many files are inherited, so their columns are empty.
    names = [name for name in batch.schema.names if "." not in name and name != ROW_ID]
    return [names[place] for place in telling_columns(batch.select(names))] if names else []


def _digests(file: FileRows, columns: Sequence[str], reader: TableRowReader) -> Digests:
    read = reader.read_columns(file.data_file, columns)
    return np.concatenate([digests_of([batch.column(name) for name in columns]) for batch in read])


@dataclass(kw_only=True)
class _Side:
    """One of the files, with the rows that are left of it."""

    tally: FileTally
    reader: TableRowReader
    left: list[pa.RecordBatch] = field(default_factory=list)
    left_bytes: int = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows."""
        for rows in self.reader.read(self.tally.file):
            self.tally.add(rows)
            yield rows.batch

    def paired(self, is_paired: NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
        """The rows with a partner; the others are left."""
        start = 0
        for batch in self.batches():
            mask = is_paired[start : start + batch.num_rows]
            start += batch.num_rows
            if not mask.all():
                self.leave(batch, np.flatnonzero(~mask))
                batch = batch.filter(pa.array(mask))
            yield batch

    def leave(self, batch: pa.RecordBatch, rows: NDArray[np.int64]) -> None:
        """Keeps rows that have no equal row."""
        if len(rows):
            self.left.append(self.reader.plain(batch.take(pa.array(rows))))
            self.left_bytes += self.left[-1].nbytes

    def hashed_rows(self) -> HashedRows:
        """The rows that are left."""
        hashes = RowHashes.concat([row_hashes_of_batch(batch) for batch in self.left])
        return HashedRows(tally=self.tally, effects=self.tally.file.effects, hashes=hashes, kept=self.left)


def _compare_in_order(removed: _Side, added: _Side, partners: NDArray[np.int32], free_bytes: int) -> bool:
    """Compares pairs that have the same order in both files; False if too many differ, or memory is short."""
    # removed   a b c d e      b was deleted, x inserted:  a c d e
    # added     a c d x e      side by side                a c d e
    is_paired = np.zeros(removed.tally.file.data_file.record_count, np.bool_)
    is_paired[partners[partners >= 0]] = True
    seen = differing = 0
    for one, other in aligned_batches(removed.paired(is_paired), added.paired(partners >= 0)):
        rows = differing_rows(one, other)
        removed.leave(one, rows)
        added.leave(other, rows)
        seen, differing = seen + one.num_rows, differing + len(rows)
        if differing > _MOST_DIFFERING * seen or removed.left_bytes + added.left_bytes > free_bytes:
            return False
    return True


def _compare_anywhere(removed: _Side, added: _Side, partners: NDArray[np.int32], free_bytes: int) -> bool:
    """Compares pairs wherever they are; False if too many differ, or the removed rows do not fit into memory."""
    held = _held(removed, free_bytes)
    if held is None:
        return False
    is_left = np.ones(held.num_rows, np.bool_)
    start = seen = differing = 0
    for batch in added.batches():
        of_batch = partners[start : start + batch.num_rows]
        start += batch.num_rows
        pairs = np.flatnonzero(of_batch >= 0)
        places, indices = pa.array(pairs), pa.array(of_batch[pairs])
        differs = np.zeros(len(pairs), np.bool_)
        # Column by column, so that the rows of a batch are never all there twice.
        for one, other in zip(held.columns, batch.columns, strict=True):
            mask = differing_values(one.take(indices), other if len(pairs) == len(other) else other.take(places))
            if mask is not None:
                differs |= mask
        is_left[of_batch[pairs[~differs]]] = False
        is_unequal = np.ones(batch.num_rows, np.bool_)
        is_unequal[pairs[~differs]] = False
        added.leave(batch, np.flatnonzero(is_unequal))
        seen, differing = seen + len(pairs), differing + int(differs.sum())
        if differing > _MOST_DIFFERING * seen or held.nbytes + added.left_bytes > free_bytes:
            return False
    removed.leave(held, np.flatnonzero(is_left))
    return True


def _held(side: _Side, free_bytes: int) -> pa.RecordBatch | None:
    """All rows of a file, in one piece; None as soon as a batch shows that they take too much memory."""
    most_bytes_per_row = free_bytes / 2 / side.tally.file.data_file.record_count
    batches: list[pa.RecordBatch] = []
    for batch in side.batches():
        if batch.nbytes > most_bytes_per_row * batch.num_rows:
            return None
        batches.append(batch)
    names = side.reader.shape.compared_schema.names
    return pa.RecordBatch.from_arrays([_joined([batch[name] for batch in batches]) for name in names], names=names)


def _joined(chunks: Sequence[pa.Array]) -> pa.Array:
    if len(chunks) == 1:
        return chunks[0]
    if any(pa.types.is_dictionary(chunk.type) for chunk in chunks):
        if len({chunk.type for chunk in chunks}) == 1:
            return pa.chunked_array(chunks).unify_dictionaries().combine_chunks()
        chunks = [chunk.dictionary_decode() if pa.types.is_dictionary(chunk.type) else chunk for chunk in chunks]
    return pa.concat_arrays(chunks)
