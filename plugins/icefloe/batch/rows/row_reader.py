"""The rows of data files as a map task reads them: touched rows that pass the filter."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from icefloe.batch.rows.file_effects import FileEffects, Positions, listed
from icefloe.batch.rows.memory_limit import RowLimit
from icefloe.batch.rows.row_shape import RowShape
from icefloe.iceberg.data_file import DataFile, DeleteFile
from icefloe.iceberg.files.reader import FileReader
from icefloe.iceberg.schemas.table_schema import TableSchema

__all__ = ["ReadRows", "TableRowReader"]


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
