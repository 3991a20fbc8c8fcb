"""Rows that might not cancel, with their hashes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Self

import numpy as np
import pyarrow as pa

from icefloe.batch.rows.file_effects import Effect, FileEffects, Positions, WeightedRows
from icefloe.batch.rows.row_reader import ReadRows, TableRowReader
from icefloe.changes.hash_index import HashSlice
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.errors import TerminalError

BYTES_PER_HASHED_ROW: Final = 64
"""A position, a row hash, a copy of it next to the hashes of the other files, and memory to compare them."""


class FileTally:
    """The rows of one file as they are read."""

    def __init__(self, file: FileEffects) -> None:
        self.file = file
        self.rows_read = 0
        self._rows = [0 for _ in file.effects]

    def add(self, rows: ReadRows) -> None:
        """Counts rows in the steps that touch them."""
        self.rows_read += rows.rows_read
        positions = rows.positions
        for index, effect in enumerate(self.file.effects):
            self._rows[index] += len(positions) if effect.rows.is_all else len(effect.rows.among(positions))

    def add_all(self, num_rows: int) -> None:
        """Counts rows that all effects of the file touch."""
        self.rows_read += num_rows
        self._rows = [rows + num_rows for rows in self._rows]

    def weighted(self) -> list[tuple[int, int]]:
        """(change_ordinal, weight times rows) of each effect."""
        pairs = zip(self.file.effects, self._rows, strict=True)
        return [(effect.change_ordinal, effect.weight * rows) for effect, rows in pairs]


class ReadTally:
    """The rows of a map task's files."""

    def __init__(self, files: Sequence[FileEffects]) -> None:
        self._files = files
        self._read: dict[tuple[str, int | None], FileTally] = {}

    def add_file(self, tally: FileTally) -> None:
        """Adds a file, once even if it is read again."""
        self._read[tally.file.key] = tally

    @property
    def rows_read(self) -> int:
        """Rows read; those that are read separately for different steps count each time."""
        return sum(tally.rows_read for tally in self._read.values())

    @property
    def removed_rows(self) -> int:
        """Rows of negative weight, once per step."""
        return self._weighted(-1)

    @property
    def added_rows(self) -> int:
        """Rows of positive weight, once per step."""
        return self._weighted(1)

    def require(self, handed_on: Mapping[int, int], *, what: str) -> None:
        """Checks that every planned row was read, and that cancelling kept the signed count of each step."""
        expected: dict[int, int] = {}
        for file in self._files:
            path, planned = file.data_file.path, file.touched_count()
            tally = self._read.get(file.key)
            rows = 0 if tally is None else tally.rows_read
            if rows != planned:
                raise TerminalError(
                    f"{what} read {rows} of the {planned} rows of {path}; nothing was delivered, report this as a bug",
                    path=path,
                )
            for ordinal, weighted in [] if tally is None else tally.weighted():
                expected[ordinal] = expected.get(ordinal, 0) + weighted
        for ordinal in sorted(expected.keys() | handed_on.keys()):
            if expected.get(ordinal, 0) != handed_on.get(ordinal, 0):
                raise TerminalError(
                    f"{what} read {expected.get(ordinal, 0)} rows net in change ordinal {ordinal} and hands on "
                    f"{handed_on.get(ordinal, 0)}; nothing was delivered, report this as a bug",
                )

    def _weighted(self, sign: int) -> int:
        found = (weighted for tally in self._read.values() for _, weighted in tally.weighted())
        return sum(abs(weighted) for weighted in found if weighted * sign > 0)


class MemoryBudget:
    """Bytes that may be kept between reading and handing on."""

    def __init__(self, size_bytes: int) -> None:
        self.free_bytes = size_bytes

    def take(self, size_bytes: int) -> bool:
        """True if enough bytes were left to take."""
        if size_bytes > self.free_bytes:
            return False
        self.free_bytes -= size_bytes
        return True

    def give_back(self, size_bytes: int) -> None:
        """Returns bytes that were taken."""
        self.free_bytes += size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HashedRows:
    """Rows of one file."""

    tally: FileTally
    effects: Sequence[Effect]  # on the hashed rows, numbered from 0
    hashes: RowHashes
    kept: Sequence[pa.RecordBatch] | None  # batches that hold the rows; None: they are read from the file again
    places: Positions | None = None  # of the rows in ``kept``, or in the file; None: one after the other

    def within(self, hash_slice: HashSlice) -> Self:
        """Rows whose hashes are in a slice."""
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
        is_wanted = np.zeros(len(self.hashes), np.bool_)
        for effect in effects:
            is_wanted[effect.rows.among(np.arange(len(is_wanted)))] = True
        wanted, start = np.flatnonzero(is_wanted), 0
        for batch in self._rows_at(wanted if self.places is None else self.places[wanted], reader):
            positions = wanted[start : start + batch.num_rows]
            start += batch.num_rows
            reader.with_valid_values(self.tally.file.data_file, batch)
            yield WeightedRows.of(batch, self.hashes.take(positions), (positions, effects))

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


class RemainingRows:
    """Collects rows with their hashes. Rows that do not fit into the budget are read again if they survive."""

    def __init__(self, tally: FileTally, reader: TableRowReader, budget: MemoryBudget) -> None:
        self.tally = tally
        self.num_rows = 0
        self._reader = reader
        self._budget = budget
        self._hashes: list[RowHashes] = []
        self._positions: list[Positions] = [np.zeros(0, np.int64)]
        self._kept: list[pa.RecordBatch] | None = []
        self._kept_bytes = 0

    def add(self, batch: pa.RecordBatch, positions: Positions, rows: Positions | None = None) -> None:
        """Adds rows of a batch."""
        if rows is not None:
            batch, positions = self._reader.plain(batch.take(pa.array(rows))), positions[rows]
        if not batch.num_rows:
            return
        self._append(RowHashes.of_batch(batch, key=self._reader.shape.hash_key), positions)
        if self._kept is None:
            return
        if self._budget.take(batch.nbytes):
            self._kept.append(batch)
            self._kept_bytes += batch.nbytes
        else:
            self.forget()

    def add_slice(self, batch: pa.RecordBatch, positions: Positions, hash_slice: HashSlice) -> None:
        """Adds the rows whose hashes are in a slice. They are never kept."""
        if hash_slice.is_whole:
            self.add(batch, positions)
            return
        self.forget()
        hashed = RowHashes.of_batch(batch, key=self._reader.shape.hash_key)
        in_slice = hash_slice.positions(hashed)
        self._append(hashed.take(in_slice), positions[in_slice])

    def forget(self) -> None:
        """Keeps no rows any more. Hashes and positions stay."""
        self._kept = None
        self._budget.give_back(self._kept_bytes)
        self._kept_bytes = 0

    def hashed_rows(self) -> HashedRows:
        """The rows that were added."""
        places = np.concatenate(self._positions)
        return HashedRows(
            tally=self.tally,
            effects=seen_from(self.tally.file.effects, places),
            hashes=RowHashes.concat(self._hashes),
            kept=self._kept,
            places=places if self._kept is None else None,
        )

    def _append(self, hashes: RowHashes, positions: Positions) -> None:
        self._hashes.append(hashes)
        self._positions.append(positions)
        self.num_rows += len(positions)


def hash_file(file: FileEffects, reader: TableRowReader, *, budget: MemoryBudget, hash_slice: HashSlice) -> HashedRows:
    """Every touched row of a file with its hash, or only those in a slice."""
    left = RemainingRows(FileTally(file), reader, budget)
    for rows in reader.read(file):
        left.tally.add(rows)
        left.add_slice(rows.batch, rows.positions, hash_slice)
    return left.hashed_rows()
