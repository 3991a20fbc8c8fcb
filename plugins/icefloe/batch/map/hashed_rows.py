"""Rows of one file that might not cancel, with their hashes, and the memory that they may take."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from typing import Final, Self

import numpy as np
import pyarrow as pa

from icefloe.batch.map.read_tally import FileTally
from icefloe.batch.rows.row_reader import TableRowReader
from icefloe.batch.rows.row_set import Positions, RowSet
from icefloe.batch.rows.weighted_rows import Effect, WeightedRows
from icefloe.changes.hash_slice import HashSlice
from icefloe.changes.row_hash.row_hashes import RowHashes

BYTES_PER_HASHED_ROW: Final = 64
"""A position, a row hash, a copy of it next to the hashes of the other files, and memory to compare them."""


class MemoryBudget:
    """Bytes that may be kept between reading and handing on.

    Args:
        size_bytes: size of the whole budget.
    """

    def __init__(self, size_bytes: int) -> None:
        self._free_bytes = size_bytes

    @property
    def free_bytes(self) -> int:
        """Bytes that are left."""
        return self._free_bytes

    def take(self, size_bytes: int) -> bool:
        """Takes bytes if enough are left; True if it took them."""
        if size_bytes > self._free_bytes:
            return False
        self._free_bytes -= size_bytes
        return True

    def give_back(self, size_bytes: int) -> None:
        """Gives back bytes that were taken."""
        self._free_bytes += size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HashedRows:
    """Rows of one file.

    Attributes:
        tally: tally of the file, read to its end.
        effects: on the hashed rows, which are numbered from 0.
        hashes: one of each row.
        kept: batches that hold the rows, if memory allowed; None: they are read from the file again.
        places: positions of the rows in ``kept``, or in the file; None: one after the other.
    """

    tally: FileTally
    effects: Sequence[Effect]
    hashes: RowHashes
    kept: Sequence[pa.RecordBatch] | None
    places: Positions | None = None

    def within(self, hash_slice: HashSlice) -> Self:
        """The rows whose hashes are in a slice."""
        if hash_slice.is_whole:
            return self
        in_slice = hash_slice.positions(self.hashes)
        return replace(
            self,
            effects=seen_from(self.effects, in_slice),
            hashes=self.hashes.take(in_slice),
            places=in_slice if self.places is None else self.places[in_slice],
        )

    def rows(self, effects: Sequence[Effect], reader: TableRowReader) -> Iterator[WeightedRows]:
        """The rows that effects touch."""
        touched = reduce(RowSet.union, (effect.rows for effect in effects), RowSet(positions=np.zeros(0, np.int64)))
        wanted = touched.among(np.arange(len(self.hashes)))
        start = 0
        for batch in self._rows_at(wanted if self.places is None else self.places[wanted], reader):
            positions = wanted[start : start + batch.num_rows]
            start += batch.num_rows
            reader.with_valid_values(self.tally.file.data_file, batch)
            yield WeightedRows.of(batch, self.hashes.take(positions), positions, effects)

    def _rows_at(self, wanted: Positions, reader: TableRowReader) -> Iterator[pa.RecordBatch]:
        if not len(wanted):
            return
        if self.kept is None:
            yield from reader.read_rows(self.tally.file.data_file, wanted)
            return
        stops = np.cumsum([batch.num_rows for batch in self.kept])
        bounds = np.searchsorted(wanted, np.concatenate([[0], stops]))
        for batch, stop, (first, last) in zip(self.kept, stops, pairwise(bounds), strict=True):
            if last > first:
                yield reader.plain(batch.take(pa.array(wanted[first:last] - (stop - batch.num_rows))))


def seen_from(effects: Sequence[Effect], positions: Positions) -> list[Effect]:
    """The effects if only the rows at some positions are left, numbered from 0."""
    return [replace(effect, rows=effect.rows.seen_from(positions)) for effect in effects]
