"""A data file, opened and checked: its format, its row count, and the plan that turns its columns into the table's."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NotRequired, TypedDict, Unpack

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyiceberg.io import FileIO, InputStream

from icefloe.errors import NotBuiltError, TerminalError
from icefloe.iceberg.catalog.file_io import data_file_input, is_local, reading_data_file
from icefloe.iceberg.data_file import DataFile
from icefloe.iceberg.delete_file import DeleteFile
from icefloe.iceberg.files.dictionary_pages import DictionaryBound
from icefloe.iceberg.files.file_formats import READABLE_FORMATS, open_rows
from icefloe.iceberg.files.kept_footers import KeptFooters
from icefloe.iceberg.files.kept_projections import KeptProjections
from icefloe.iceberg.files.opened_file import OpenedFile
from icefloe.iceberg.projection.file_columns import FileColumn
from icefloe.iceberg.projection.projection import Projection
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.iceberg.unreadable import ColumnError

BATCH_ROWS: Final = 131_072


class ReadOptions(TypedDict):
    """The columns to read of a data file, and how.

    Attributes:
        schema: the columns; batches have exactly ``schema.arrow``.
        io: opens the file.
        table: its name, for errors.
        batch_rows: the most rows in a batch, `BATCH_ROWS` if not given; a few batches are in memory at a time.
        dictionary_columns: keep text columns that the file dictionary-encodes as dictionary arrays, whose distinct
            values have the schema's type. That is far less to decode and to hash. `plain_batch` decodes them.
        decoded: is given each batch of the file's own columns as it is decoded.
        bound: refuses dictionaries that are too large to be held; none if not given.
        footers: footers of Parquet files that were opened before, if the caller opens files several times.
        projections: projections of files that were read before, if the caller reads several.
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


class RecordCountError(TerminalError):
    """A data file has more or fewer rows than the table's metadata says."""

    path: str
    table: str
    num_rows: int
    record_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectedFile:
    """An open data file and the projection of its columns.

    Attributes:
        source: the file's bytes.
        rows: its rows as batches of its own columns.
        file_columns: all its columns.
        projection: turns them into the schema's columns.
        columns: names of the columns to read; None: all.
        places: index of each read column in a batch.
        decoded: gets each decoded batch.
    """

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
        """A batch in the schema's columns."""
        return self.projection.apply(batch, self.places)

    def rows_of(self, groups: list[int], wanted: NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
        """The rows at positions within a run of row groups; stops decoding after the last one."""
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
    """Opens a file; arguments and errors are those of ``read_data_file``."""
    schema, io, table = options["schema"], options["io"], options["table"]
    keeps_dictionaries = options.get("dictionary_columns", False)
    if file.file_format not in READABLE_FORMATS:
        raise NotBuiltError(
            f"{file.noun} {file.path} of table {table} is {file.file_format}: this release reads "
            f"{', '.join(sorted(READABLE_FORMATS))}; rewrite the file, or wait for a release that reads it",
            path=file.path,
            table=table,
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
        raise RecordCountError(
            f"{file.noun} {file.path} of table {table} holds {num_rows} rows, but the table's metadata says "
            f"{file.record_count}: the file was replaced or the metadata is wrong; restore the file",
            path=file.path,
            table=table,
            num_rows=num_rows,
            record_count=file.record_count,
        )
