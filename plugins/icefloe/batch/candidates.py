"""Candidates: rows of one file that may not cancel, with their hashes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Self

import numpy as np
import pyarrow as pa

from icefloe.batch.changed_rows import ChangedRows, Effect, Positions, touched_positions
from icefloe.batch.document import FileWork
from icefloe.batch.memory_budget import MemoryBudget
from icefloe.batch.row_reader import TableRowReader
from icefloe.changes.hash_slice import HashSlice
from icefloe.changes.row_hash import RowHashes, row_hashes_of_batch

__all__ = ["Candidates", "hash_file"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Rows of one file.

    Attributes:
        work: the file.
        hashes: of the candidates.
        kept: batches that hold them, where memory allowed; None: they are read again from the file.
        positions: of the candidates in ``kept``, or in the file; None: all rows are candidates.
        rows_read: rows that the file was found to have.
    """

    work: FileWork
    rows_read: int
    hashes: RowHashes
    kept: Sequence[pa.RecordBatch] | None
    positions: Positions | None = None

    def weight_in(self, ordinal: int) -> int:
        """The weight of the rows in one step; 0 where it does not touch the file."""
        return dict(self.work.weights).get(ordinal, 0)

    def within(self, part: HashSlice) -> Self:
        """Those whose hashes lie in a slice."""
        if part.is_whole:
            return self
        here = part.positions(self.hashes)
        positions = here if self.positions is None else self.positions[here]
        return replace(self, hashes=self.hashes.take(here), positions=positions)

    def rows(self, effects: Sequence[Effect], reader: TableRowReader) -> Iterator[ChangedRows]:
        """The candidates that effects touch; their positions count the candidates, not the rows of the file."""
        wanted = touched_positions(effects, len(self.hashes))
        start = 0
        for batch in self._rows_at(wanted if self.positions is None else self.positions[wanted], reader):
            here = wanted[start : start + batch.num_rows]
            start += batch.num_rows
            yield ChangedRows.of(batch, self.hashes.take(here), here, effects)

    def _rows_at(self, wanted: Positions, reader: TableRowReader) -> Iterator[pa.RecordBatch]:
        if not len(wanted):
            return
        if self.kept is None:
            yield from reader.read_rows(self.work, wanted)
            return
        stops = np.cumsum([batch.num_rows for batch in self.kept])
        bounds = np.searchsorted(wanted, np.concatenate([[0], stops]))
        for batch, stop, (first, last) in zip(self.kept, stops, pairwise(bounds), strict=True):
            if last > first:
                yield reader.plain(batch.take(pa.array(wanted[first:last] - (stop - batch.num_rows))))


def hash_file(work: FileWork, reader: TableRowReader, *, budget: MemoryBudget, part: HashSlice) -> Candidates:
    """Every row of a file as a candidate, or those of a slice of the hashes.

    Args:
        work: the file.
        reader: how to read it.
        budget: what is left of it decides whether the rows are kept; those of a slice are not.
        part: of the hashes.
    """
    hashes: list[RowHashes] = []
    positions: list[Positions] = []
    kept: list[pa.RecordBatch] | None = [] if part.is_whole else None
    rows_read = kept_bytes = 0
    for first, batch in reader.read_file(work):
        hashed = row_hashes_of_batch(batch)
        rows_read += len(hashed)
        if part.is_whole:
            hashes.append(hashed)
        else:
            here = part.positions(hashed)
            hashes.append(hashed.take(here))
            positions.append(here + first)
        if kept is not None:
            kept.append(batch)
            kept_bytes += batch.nbytes
            if kept_bytes > budget.free_bytes:
                kept = None
    if kept is not None:
        budget.take(kept_bytes)
    return Candidates(
        work=work,
        rows_read=rows_read,
        hashes=RowHashes.concat(hashes),
        kept=kept,
        positions=None if part.is_whole else np.concatenate([np.zeros(0, np.int64), *positions]),
    )
