"""Reads data files: batches in the table's schema with positions, in bounded memory."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NotRequired, TypedDict, Unpack

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyiceberg.io import FileIO, InputStream
from pyroaring import BitMap64

from icefloe.errors import NotBuiltError, TerminalError, one_line
from icefloe.iceberg.catalog.file_io import data_file_input, is_local, reading_data_file
from icefloe.iceberg.data_file import DataFile, DeleteFile, RowGroups
from icefloe.iceberg.files.opened_file import KeptProjections, OpenedFile
from icefloe.iceberg.files.parquet_file import DictionaryBound, ParquetRows
from icefloe.iceberg.files.parquet_footer import KeptFooters
from icefloe.iceberg.schemas.file_columns import FileColumn
from icefloe.iceberg.schemas.projection import Projection
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.iceberg.unreadable import ColumnError
from icefloe.storage.local_folders import local_folders, on_local_disk, scratch_file, task_folder

if TYPE_CHECKING:
    from icefloe.iceberg.files.avro_file import AvroRows
    from icefloe.iceberg.files.orc_file import OrcRows

__all__ = ["ReadOptions", "check_values", "plain_batch", "read_data_file", "read_rows"]


_CANNOT_COPY: Final = "a file of the table cannot be copied to local disk, from where it would be read"
_COPIED_BYTES: Final = 8 << 20
READABLE_FORMATS: Final = frozenset({"PARQUET", "ORC", "AVRO"})


@contextmanager
def open_rows(
    file_format: str,
    source: InputStream,
    *,
    is_near: bool,
    batch_rows: int,
    dictionary_columns: bool,
    path: str = "",
    footers: KeptFooters | None = None,
    row_groups: RowGroups | None = None,
) -> Iterator[OpenedFile]:
    """The rows of an open file.

    Args:
        is_near: many small requests are fast; otherwise ORC and Avro files are copied first.
    """
    if file_format == "PARQUET":
        rows = ParquetRows.open(
            source,
            batch_rows=batch_rows,
            pre_buffer=not is_near,
            dictionary_columns=dictionary_columns,
            footer=None if footers is None else footers.get(path),
            row_groups=row_groups,
        )
        if footers is not None:
            footers.add(path, rows.footer)
        yield rows
        return
    with nullcontext(source) if is_near else _copied(source) as near:
        yield _orc_or_avro(file_format).open(near, batch_rows=batch_rows)


def _orc_or_avro(file_format: str) -> "type[AvroRows | OrcRows]":
    # Hardly any table has ORC or Avro files of rows, so a task loads these readers only for a table that has.
    from icefloe.iceberg.files.avro_file import AvroRows
    from icefloe.iceberg.files.orc_file import OrcRows

    return OrcRows if file_format == "ORC" else AvroRows


@contextmanager
def _copied(source: InputStream) -> Iterator[pa.NativeFile]:
    """On local disk: pyarrow reads ORC by 128 KiB, Avro has 64-KiB blocks."""
    with ExitStack() as owned:
        folder = owned.enter_context(task_folder("file", local_folders(os.environ)[0]))
        path = folder / "copy"
        with on_local_disk(_CANNOT_COPY):
            copy = owned.enter_context(scratch_file(path.open("wb")))
        while chunk := source.read(_COPIED_BYTES):
            with on_local_disk(_CANNOT_COPY):
                copy.write(chunk)
        with on_local_disk(_CANNOT_COPY):
            copy.close()
        with pa.OSFile(str(path)) as near:
            yield near


BATCH_ROWS: Final = 131_072


class ReadOptions(TypedDict):
    """The columns to read of a data file, and how.

    Attributes:
        batch_rows: `BATCH_ROWS` by default; a few batches are in memory at a time.
        dictionary_columns: keep encoded text columns as dictionary arrays: less to decode and to hash. `plain_batch`
            decodes them.
        decoded: gets each batch of the file's own columns as it is decoded.
        bound: refuses dictionaries that are too large to hold; by default none.
    """

    schema: TableSchema
    io: FileIO
    table: str
    batch_rows: NotRequired[int]
    dictionary_columns: NotRequired[bool]
    decoded: NotRequired[Callable[[pa.RecordBatch], None] | None]
    bound: NotRequired[DictionaryBound | None]
    footers: NotRequired[KeptFooters | None]
    projections: NotRequired[KeptProjections | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectedFile:
    source: InputStream
    rows: OpenedFile
    file_columns: tuple[FileColumn, ...]
    projection: Projection
    columns: list[str] | None
    places: Mapping[int, int]
    decoded: Callable[[pa.RecordBatch], None] | None

    def batches(self, groups: list[int]) -> Iterator[pa.RecordBatch]:
        """The rows of consecutive row groups, in the file's own columns."""
        for batch in self.rows.batches(groups, self.columns):
            if self.decoded is not None:
                self.decoded(batch)
            yield batch

    def project(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return self.projection.apply(batch, self.places)

    def rows_of(self, groups: list[int], wanted: NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
        """The rows at positions within a run; stops decoding after the last one."""
        # Positions 3 and 9 in batches of 4 rows:  row 3 of the first batch, none of the second, row 1 of the third.
        start = 0
        for batch in self.batches(groups) if len(wanted) else ():
            in_batch, wanted = np.split(wanted, [np.searchsorted(wanted, start + batch.num_rows)])
            if len(in_batch):
                yield self.project(batch.take(pa.array(in_batch - start)))
            if not len(wanted):
                return
            start += batch.num_rows


@contextmanager
def open_projected(file: DataFile | DeleteFile, **options: Unpack[ReadOptions]) -> Iterator[ProjectedFile]:
    """Opens a file; see ``read_data_file``."""
    schema, io, table = options["schema"], options["io"], options["table"]
    keeps_dictionaries = options.get("dictionary_columns", False)
    if file.file_format not in READABLE_FORMATS:
        raise NotBuiltError(
            f"{file.noun} {file.path} of table {table} is {file.file_format}: this release reads "
            f"{', '.join(sorted(READABLE_FORMATS))}; rewrite the file, or wait for a release that reads it"
        )
    try:
        opener = data_file_input(io, file.path, table=table, noun=file.noun)
        with (
            reading_data_file(file.path, table=table, noun=file.noun),
            opener.open() as source,
            open_rows(
                file.file_format,
                source,
                is_near=is_local(file.path),
                batch_rows=options.get("batch_rows", BATCH_ROWS),
                dictionary_columns=keeps_dictionaries,
                path=file.path,
                footers=options.get("footers"),
                row_groups=file.row_groups if isinstance(file, DataFile) else None,
            ) as rows,
        ):
            if rows.num_rows is not None:
                _check_count(file, rows.num_rows, table)
            projections = options.get("projections") or KeptProjections()
            found, projection = projections.of(
                rows.schema, schema, file.constants, keep_dictionaries=keeps_dictionaries
            )
            columns, places = rows.selection(projection.positions)
            _check_dictionaries(rows, columns, options.get("bound"), f"{file.noun} {file.path} of table {table}")
            yield ProjectedFile(
                source=source,
                rows=rows,
                file_columns=found,
                projection=projection,
                columns=columns,
                places=places,
                decoded=options.get("decoded"),
            )
    except ColumnError as error:
        raise error.in_file(file.path, table=table, noun=file.noun) from error


def _check_dictionaries(rows: OpenedFile, columns: list[str] | None, bound: DictionaryBound | None, place: str) -> None:
    if bound is None:
        return
    size_bytes = rows.dictionary_bytes(columns, most=bound.most_dictionary_bytes)
    if size_bytes > bound.most_dictionary_bytes:
        bound.refuse_dictionaries(size_bytes, place=place)


def _check_count(file: DataFile | DeleteFile, num_rows: int, table: str) -> None:
    if num_rows != file.record_count:
        raise TerminalError(
            f"{file.noun} {file.path} of table {table} holds {num_rows} rows, but the table's metadata says "
            f"{file.record_count}: the file was replaced or the metadata is wrong; restore the file"
        )


def read_data_file(file: DataFile | DeleteFile, **options: Unpack[ReadOptions]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """All rows of a data file, in order, as (position of the first row, batch).

    Raises:
        FileGoneError: the file does not exist.
    """
    with open_projected(file, **options) as opened:
        for first, _, groups in opened.rows.group_runs():
            position = first
            for batch in opened.batches(groups):
                yield position, opened.project(batch)
                position += batch.num_rows


def read_rows(
    file: DataFile, positions: NDArray[np.int64] | BitMap64, **options: Unpack[ReadOptions]
) -> Iterator[pa.RecordBatch]:
    """The rows at some positions, in order; row groups without any are not decoded.

    Args:
        positions: ascending, each once, below ``file.record_count``; a bitmap becomes a list one run at a time.
    """
    _check_positions(file, positions)
    if not len(positions):
        return
    with open_projected(file, **options) as opened:
        for first, rows, groups in opened.rows.group_runs():
            yield from opened.rows_of(groups, _between(positions, first, first + rows) - first)


def plain_batch(batch: pa.RecordBatch, schema: TableSchema) -> pa.RecordBatch:
    """A batch of ``read_data_file(dictionary_columns=True)``, or rows from one, in exactly ``schema.arrow``."""
    columns = [
        column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema.arrow)


def check_values(rows: pa.RecordBatch, file: DataFile, *, table: str) -> None:
    """Stops if a value is not what its type allows.

    Text that is no UTF-8, or a decimal of too many digits: no sink can hold them, and to the shuffle they are damage.
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
            "out"
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
