"""The rows of data files as a map task reads them: those that are touched, by position."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from icefloe.batch.file_rows import FileRows
from icefloe.batch.row_set import Positions
from icefloe.iceberg.data_file import DataFile
from icefloe.iceberg.reader import plain_batch, read_data_file, read_rows
from icefloe.iceberg.table import FileIO
from icefloe.iceberg.table_schema import TableSchema

__all__ = ["TableRowReader"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRowReader:
    """Reads the touched rows of files, text still dictionary-encoded where the file has it so, or rows by position.

    Attributes:
        schema: of the batch.
        io: opens the files.
        table: its name, for errors.
    """

    schema: TableSchema
    io: FileIO
    table: str

    def read(self, file: FileRows) -> Iterator[tuple[Positions, pa.RecordBatch]]:
        """The rows that the file's effects touch, in order, with their positions; of the others little is decoded."""
        touched = file.touched
        if not touched.is_all_but:
            yield from self._at(file.data_file, touched.positions)
            return
        for first, batch in read_data_file(
            file.data_file, schema=self.schema, io=self.io, table=self.table, dictionary_columns=True
        ):
            positions = np.arange(first, first + batch.num_rows)
            here = touched.among(positions)
            if len(here) == len(positions):
                yield positions, batch
            elif len(here):
                yield positions[here], batch.take(pa.array(here))

    def read_rows(self, data_file: DataFile, positions: Positions) -> Iterator[pa.RecordBatch]:
        """The rows at ascending positions, in exactly the schema of the batch."""
        return read_rows(data_file, positions, schema=self.schema, io=self.io, table=self.table)

    def plain(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of `read` in exactly the schema of the batch."""
        return plain_batch(batch, self.schema)

    def _at(self, data_file: DataFile, positions: Positions) -> Iterator[tuple[Positions, pa.RecordBatch]]:
        start = 0
        for batch in self.read_rows(data_file, positions):
            yield positions[start : start + batch.num_rows], batch
            start += batch.num_rows
