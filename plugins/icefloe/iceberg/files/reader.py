"""Reads data files: rows as record batches in the table's schema, with their positions, in bounded memory."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Unpack

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64

from icefloe.errors import one_line
from icefloe.iceberg.data_file import DataFile
from icefloe.iceberg.delete_file import DeleteFile
from icefloe.iceberg.files.projected_file import ReadOptions, open_projected
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.iceberg.unreadable import ColumnError

if TYPE_CHECKING:
    from icefloe.iceberg.filters.row_filter import RowFilter

__all__ = [
    "ReadOptions",
    "check_values",
    "plain_batch",
    "read_data_file",
    "read_matching_rows",
    "read_rows",
]


def read_data_file(file: DataFile | DeleteFile, **options: Unpack[ReadOptions]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """All rows of a data file, in order, as (position of the first row, batch).

    Args:
        file: a data file of the table, or a delete file with rows of its own.
        options: the columns to read, and how.

    Raises:
        FileGoneError: the file does not exist.
        RecordCountError: it has more or fewer rows than the table's metadata says.
        ColumnError: its columns cannot become the columns of the schema.
        NotBuiltError: it has a format that this release does not read.
        TerminalError: it is damaged or may not be read.
        TransientError: the storage did not answer.
    """
    with open_projected(file, **options) as opened:
        for first, _, groups in opened.rows.group_runs():
            position = first
            for batch in opened.batches(groups):
                yield position, opened.project(batch)
                position += batch.num_rows


def read_matching_rows(
    file: DataFile, *, row_filter: "RowFilter", **options: Unpack[ReadOptions]
) -> Iterator[tuple[int, int, pa.RecordBatch | None]]:
    """All rows of a data file in order, without row groups that the footer statistics rule out.

    Args:
        file: a data file of the table.
        row_filter: bound to the schema; rows that do not pass are read with those that do.
        options: as for `read_data_file`; the errors are the same, too.

    Yields:
        The position of the first row, the number of rows, and the rows; None if the rows are left out.
    """
    with open_projected(file, **options) as opened:
        left_out = opened.rows.groups_without(row_filter, opened.file_columns)
        for first, rows, groups in opened.rows.group_runs(left_out):
            if left_out and not groups:
                yield first, rows, None
                continue
            position = first
            for batch in opened.batches(groups):
                yield position, batch.num_rows, opened.project(batch)
                position += batch.num_rows


def read_rows(
    file: DataFile, positions: NDArray[np.int64] | BitMap64, **options: Unpack[ReadOptions]
) -> Iterator[pa.RecordBatch]:
    """The rows at some positions of a data file, in order; row groups without such rows are not decoded.

    Args:
        file: a data file of the table.
        positions: ascending, each once, from 0 to ``file.record_count``, exclusive; a bitmap is turned into a list for
            one run of row groups at a time.
        options: as for `read_data_file`; the errors are the same, too.

    Raises:
        ValueError: the positions are not ascending, or not in the file.
    """
    _check_positions(file, positions)
    if not len(positions):
        return
    with open_projected(file, **options) as opened:
        for first, rows, groups in opened.rows.group_runs():
            yield from opened.rows_of(groups, _between(positions, first, first + rows) - first)


def plain_batch(batch: pa.RecordBatch, schema: TableSchema) -> pa.RecordBatch:
    """A batch of ``read_data_file(dictionary_columns=True)``, or rows taken from one, in exactly ``schema.arrow``."""
    columns = [
        column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema.arrow)


def check_values(rows: pa.RecordBatch, file: DataFile, *, table: str) -> None:
    """Stops if a value of a file's rows is not what its type allows.

    A writer may leave bytes that are no UTF-8 in a text column, or a decimal of too many digits. No sink can hold them,
    and a reader of the shuffle cannot tell them from damage.

    Raises:
        ColumnError: the error names the first such column.
    """
    try:
        rows.validate(full=True)
    except pa.ArrowInvalid:
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            _check_column(column, name, file, table)
        raise


def _check_column(column: pa.Array, name: str, file: DataFile, table: str) -> None:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as cause:
        raise ColumnError(
            f"column {name!r} holds a value that its type does not allow ({one_line(cause)}): rewrite the row; where "
            "the open batch needs it as it was, start over by icefloe reset, or with `columns` that leave the column "
            "out",
            column=name,
        ).in_file(file.path, table=table) from cause


def _between(positions: NDArray[np.int64] | BitMap64, first: int, stop: int) -> NDArray[np.int64]:
    if isinstance(positions, BitMap64):
        # Not by making a bitmap of the range: its length comes from the file.
        inside = positions.copy()
        inside.remove_range(0, first)
        inside.remove_range(stop, max(stop, positions.max() + 1))
        return np.frombuffer(inside.to_array(), np.uint64).view(np.int64)
    return positions[slice(*np.searchsorted(positions, (first, stop)))]


def _check_positions(file: DataFile, positions: NDArray[np.int64] | BitMap64) -> None:
    if not len(positions):
        return
    is_ascending = isinstance(positions, BitMap64) or (np.diff(positions) > 0).all()
    if positions[0] < 0 or positions[-1] >= file.record_count or not is_ascending:
        raise ValueError(
            f"positions in {file.path} must be ascending from 0 to {file.record_count}, exclusive; found "
            f"{len(positions)} from {positions[0]} to {positions[-1]}"
        )
