"""The row groups of a Parquet file, as its footer lists them."""

from dataclasses import dataclass
from typing import Self

from icefloe.iceberg.catalog.file_io import data_file_input, reading_data_file
from icefloe.iceberg.data_file import DataFile
from icefloe.iceberg.files.parquet_footer import read_footer
from icefloe.iceberg.table import FileIO

__all__ = ["RowGroupSize"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroupSize:
    """One row group.

    Attributes:
        rows: number of its rows.
        size_bytes: bytes of its column chunks in the file.
    """

    rows: int
    size_bytes: int

    @classmethod
    def of_file(cls, file: DataFile, *, io: FileIO, table: str) -> list[Self]:
        """The row groups of a Parquet file, in order. Reads its footer only.

        Args:
            file: a data file of the table.
            io: opens it.
            table: its name, for errors.

        Raises:
            FileGoneError: the file does not exist.
            TerminalError: it is damaged or may not be read.
            TransientError: the storage did not answer.
        """
        opener = data_file_input(io, file.path, table=table)
        with reading_data_file(file.path, table=table), opener.open() as source:
            metadata = read_footer(source)
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        return [
            cls(
                rows=group.num_rows,
                size_bytes=sum(group.column(column).total_compressed_size for column in range(group.num_columns)),
            )
            for group in groups
        ]
