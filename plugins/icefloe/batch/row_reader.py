"""The rows of data files as a map task reads them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.batch.document import FileWork
from icefloe.iceberg.reader import plain_batch, read_data_file, read_rows
from icefloe.iceberg.table import FileIO
from icefloe.iceberg.table_schema import TableSchema

__all__ = ["TableRowReader"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRowReader:
    """Reads whole files, text still dictionary-encoded where the file has it so, or rows by position.

    Attributes:
        schema: of the batch.
        io: opens the files.
        table: its name, for errors.
    """

    schema: TableSchema
    io: FileIO
    table: str

    def read_file(self, work: FileWork) -> Iterator[tuple[int, pa.RecordBatch]]:
        """All rows in order, as (position of the batch's first row, batch)."""
        return read_data_file(work.data_file, schema=self.schema, io=self.io, table=self.table, dictionary_columns=True)

    def read_rows(self, work: FileWork, positions: NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
        """The rows at ascending positions, in exactly the schema of the batch."""
        return read_rows(work.data_file, positions, schema=self.schema, io=self.io, table=self.table)

    def plain(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of `read_file` in exactly the schema of the batch."""
        return plain_batch(batch, self.schema)
