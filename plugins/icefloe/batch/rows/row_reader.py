"""The rows of data files as a map task reads them: touched rows that pass the filter, none too large for its memory."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from icefloe.batch.rows.file_effects import FileEffects, Positions, listed
from icefloe.batch.rows.row_shape import RowShape
from icefloe.errors import TerminalError, TransientError, one_line
from icefloe.iceberg.data_file import DataFile, DeleteFile
from icefloe.iceberg.files.reader import FileReader
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.units import format_bytes

__all__ = ["ReadRows", "RowLimit", "TableRowReader"]

_COPIES: Final = 20
"""An updated row is in memory at most as often: decoded, hashed, encoded, merged. Measured with 64 MB."""
_BESIDES_BYTES: Final = 256 << 20
"""Memory for rows in addition to `memory_bytes`: the 512 MiB of a process, less the interpreter and its libraries."""
_DICTIONARY_COPIES: Final = 2.3
"""A dictionary is decompressed, then decoded. Measured with 484 MiB."""
_STEP_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLimit:
    """Refuses rows that would take more than the memory of a task and 512 MiB."""

    memory_bytes: int

    def check(self, batch: pa.RecordBatch, *, place: str) -> None:
        """Looks at rows that were just decoded; ``place`` is the subject of the error's sentence."""
        most = (self.memory_bytes + _BESIDES_BYTES) // _COPIES
        if batch.nbytes <= most:
            return
        row_bytes = _row_above(batch, most)
        if row_bytes is None:
            return
        needed_bytes = _memory_for(row_bytes * _COPIES)
        raise TerminalError(
            f"{place} has a row of {format_bytes(row_bytes)}, which needs "
            f"shuffle.memory_bytes: {needed_bytes >> 20}MiB, and it is {format_bytes(self.memory_bytes)}: raise it "
            "(under Spark spark.executor.memoryOverhead too), or set columns without the large one",
        )

    def check_dictionaries(self, size_above: Callable[[int], int], place: str) -> None:
        """Refuses dictionaries of a row group, which a reader holds whole; ``size_above`` is exact above a bound."""
        most = int((self.memory_bytes + _BESIDES_BYTES) / _DICTIONARY_COPIES)
        size_bytes = size_above(most)
        if size_bytes <= most:
            return
        needed_bytes = _memory_for(int(size_bytes * _DICTIONARY_COPIES))
        raise TerminalError(
            f"{place} has dictionary pages of {format_bytes(size_bytes)} in one row group, which need "
            f"shuffle.memory_bytes: {needed_bytes >> 20}MiB, and it is {format_bytes(self.memory_bytes)}: raise it "
            "(under Spark spark.executor.memoryOverhead too), set columns without the large ones, or rewrite the file",
        )

    def out_of_memory(self, cause: MemoryError, *, task: str) -> TransientError:
        """The error of a task that was refused memory. ``task`` is the subject of the sentence."""
        error = TransientError(
            f"{task} has no memory left ({one_line(cause) or 'MemoryError'}): it may need shuffle.memory_bytes "
            f"({format_bytes(self.memory_bytes)}), 512 MiB, and {_COPIES} times its largest row; give it more, under "
            "Spark by spark.executor.memoryOverhead, or use fewer cores; the next run goes on from here"
        )
        error.__cause__ = cause
        return error


def _memory_for(held_bytes: int) -> int:
    """`memory_bytes` for a task that holds so much, in round steps."""
    return -(-(held_bytes - _BESIDES_BYTES) // _STEP_BYTES) * _STEP_BYTES


def _row_above(batch: pa.RecordBatch, most: int) -> int | None:
    encoded = [column for column in batch.columns if pa.types.is_dictionary(column.type)]
    plain = batch.select([i for i, column in enumerate(batch.columns) if not pa.types.is_dictionary(column.type)])
    # A slice of an encoded column counts its whole dictionary, so the longest text stands for each row.
    texts = sum(_longest(column.dictionary) for column in encoded)
    # Halves that are small enough hold no such row, so only a few slices are looked at.
    parts = [plain]
    while parts:
        part = parts.pop()
        row_bytes = part.nbytes + texts
        if part.num_rows and row_bytes > most:
            if part.num_rows == 1:
                return row_bytes
            half = part.num_rows // 2
            parts += [part.slice(half), part.slice(0, half)]
    return None


def _longest(texts: pa.Array) -> int:
    return int(pc.max(pc.binary_length(texts)).as_py() or 0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadRows:
    """Some rows of a file.

    Attributes:
        batch: compared rows; text stays dictionary-encoded if the file has it so.
        rows_read: touched rows that this covers, with those that the filter drops.
    """

    positions: Positions
    batch: pa.RecordBatch
    rows_read: int


@dataclass(slots=True, kw_only=True, eq=False)
class TableRowReader:
    """Reads the touched rows of files, or rows by position.

    Attributes:
        files: keeps footers, because ways to compare rows read a few columns at a time, and so open a file again.
        bound: None: rows and dictionaries of any size.
        decoded_bytes: Arrow memory of the rows decoded until now; text in a dictionary counts as the dictionary and its
            indices.
    """

    shape: RowShape
    files: FileReader
    bound: RowLimit | None = None
    decoded_bytes: int = 0

    def read(self, file: FileEffects) -> Iterator[ReadRows]:
        """The touched rows that the filter lets pass, in order, with their positions."""
        for positions, batch, rows_read in self._touched(file):
            kept = positions
            if self.shape.row_filter is not None:
                passing = np.flatnonzero(self.shape.row_filter.mask(batch))
                kept = positions[passing]
                batch = batch.take(pa.array(passing)) if len(passing) < len(positions) else batch
            yield ReadRows(positions=kept, batch=self._compared(batch, file.data_file, kept), rows_read=rows_read)

    def read_columns(self, data_file: DataFile, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some columns of all rows in order."""
        for _, batch in self._checked.rows(data_file, self.shape.read.select(names), dictionary_columns=True):
            yield batch

    def columns_of_equal_bytes(self, one: DataFile, other: DataFile) -> frozenset[str]:
        """Names of columns that hold equal values at equal positions of two files, by their bytes.

        No names if the files are not alike, or if the columns are too few to help.
        """
        # A name with a dot cannot be selected.
        if self.shape.has_row_id or any("." in name for name in self.shape.read.arrow.names):
            return frozenset()
        return self.files.identical_columns(one, other, self.shape.read)

    def read_columns_at(
        self, data_file: DataFile, names: Sequence[str], positions: Positions
    ) -> Iterator[pa.RecordBatch]:
        """Some columns, of the rows at ascending positions, text decoded."""
        schema = self.shape.read.select(names)
        for batch in self._checked.rows_at(data_file, positions, schema, dictionary_columns=True):
            yield schema.plain(batch)

    def read_rows(self, data_file: DataFile, positions: Positions) -> Iterator[pa.RecordBatch]:
        """Compared rows at ascending positions, text decoded."""
        for found_at, batch in self._at(data_file, positions):
            yield self.plain(self._compared(batch, data_file, found_at))

    def joined(self, data_file: DataFile, *parts: pa.RecordBatch) -> pa.RecordBatch:
        """Compared rows from batches of some columns each, of the same rows, text decoded."""
        columns = {name: column for part in parts for name, column in zip(part.schema.names, part.columns, strict=True)}
        schema = self.shape.read.arrow
        batch = pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
        self._check_size(data_file, batch)
        return self.plain(self.shape.compared(batch))

    def with_valid_values(self, data_file: DataFile, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Compared rows that leave the map task; `ColumnError` if a value is not what its type allows."""
        self.files.check_values(rows, data_file)
        return rows

    def plain(self, compared: pa.RecordBatch) -> pa.RecordBatch:
        """Compared rows, text decoded."""
        columns = [
            column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in compared.columns
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.shape.compared_schema)

    def _touched(self, file: FileEffects) -> Iterator[tuple[Positions, pa.RecordBatch, int]]:
        """Positions, their rows, and the number of touched rows that they cover."""
        touched = file.touched
        # A few listed rows: only the row groups that hold them are decoded. All but a few: the whole file is, anyway.
        if not touched.is_all_but:
            for positions, batch in self._at(file.data_file, touched.positions):
                yield positions, batch, len(positions)
            return
        for first, batch in self._checked.rows(file.data_file, self.shape.read, dictionary_columns=True):
            positions = np.arange(first, first + batch.num_rows)
            needed = touched.among(positions)
            if len(needed) == len(positions):
                yield positions, batch, batch.num_rows
            elif len(needed):
                yield positions[needed], batch.take(pa.array(needed)), len(needed)

    def _at(self, data_file: DataFile, positions: Positions | BitMap64) -> Iterator[tuple[Positions, pa.RecordBatch]]:
        start = 0
        for batch in self._checked.rows_at(data_file, positions, self.shape.read):
            yield listed(positions[start : start + batch.num_rows]), batch
            start += batch.num_rows

    @property
    def _checked(self) -> FileReader:
        bound = None if self.bound is None else self.bound.check_dictionaries
        return replace(self.files, decoded=self._decoded, bound=bound)

    def _decoded(self, file: DataFile | DeleteFile, batch: pa.RecordBatch) -> None:
        self.decoded_bytes += batch.nbytes
        self._check_size(file, batch)

    def _check_size(self, file: DataFile | DeleteFile, batch: pa.RecordBatch) -> None:
        if self.bound is not None:
            self.bound.check(batch, place=f"{file.noun} {file.path} of table {self.files.table}")

    def _compared(self, batch: pa.RecordBatch, data_file: DataFile, positions: Positions) -> pa.RecordBatch:
        if self.shape.has_row_id:
            place = batch.schema.get_field_index(TableSchema.ROW_ID)
            row_ids = data_file.inherited_row_ids(batch.column(place), positions)
            batch = batch.set_column(place, TableSchema.ROW_ID, row_ids)
        return self.shape.compared(batch)
