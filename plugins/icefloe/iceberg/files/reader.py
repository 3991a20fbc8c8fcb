"""Reads data files: batches in the table's schema with positions, in bounded memory."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyiceberg.io import FileIO, InputStream
from pyroaring import BitMap64

from icefloe.errors import NotBuiltError, TerminalError, one_line
from icefloe.iceberg.catalog.file_io import data_file_input, is_local, reading_data_file
from icefloe.iceberg.data_file import DataFile, DeleteFile
from icefloe.iceberg.files.identical_columns import column_layouts, identical_columns
from icefloe.iceberg.files.opened_file import KeptProjections, OpenedFile, ProjectedFile, selected_columns
from icefloe.iceberg.files.parquet_file import ParquetRows, compressed_bytes, dictionary_bytes
from icefloe.iceberg.files.parquet_footer import KeptFooters, read_footer
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.iceberg.unreadable import ColumnError
from icefloe.storage.local_folders import on_local_disk, scratch_file, task_folder

__all__ = ["FileReader"]


_CANNOT_COPY: Final = "a file of the table cannot be copied to local disk, from where it would be read"
_COPIED_BYTES: Final = 8 << 20
READABLE_FORMATS: Final = frozenset({"PARQUET", "ORC"})


@contextmanager
def _copied(source: InputStream) -> Iterator[pa.NativeFile]:
    """On local disk: pyarrow reads ORC by 128 KiB."""
    with ExitStack() as owned:
        folder = owned.enter_context(task_folder("file"))
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileReader:
    """Reads the files of one table, for one thread.

    Attributes:
        batch_rows: at most; a few batches are in memory at a time.
        decoded: gets each file, and each batch of its own columns as it is decoded.
        bound: refuses dictionaries that are too large to hold, by their size, which is exact only above the number
            that is asked with, and by their place; None: of any size.
        footers: of data files. Delete files are opened once, and by several threads.
    """

    io: FileIO
    table: str
    batch_rows: int = field(default_factory=lambda: BATCH_ROWS)
    decoded: Callable[[DataFile | DeleteFile, pa.RecordBatch], None] | None = None
    bound: Callable[[Callable[[int], int], str], None] | None = None
    footers: KeptFooters = field(default_factory=KeptFooters, repr=False)
    projections: KeptProjections = field(default_factory=KeptProjections, repr=False)

    def rows(
        self, file: DataFile | DeleteFile, schema: TableSchema, *, dictionary_columns: bool = False
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """All rows of a file, in order, as (position of the first row, batch).

        Args:
            schema: the columns to read.
            dictionary_columns: keep encoded text columns as dictionary arrays: less to decode and to hash.

        Raises:
            FileGoneError: the file does not exist.
        """
        with self.open(file, schema, dictionary_columns=dictionary_columns) as opened:
            for first, _, groups in opened.rows.group_runs():
                position = first
                for batch in opened.batches(groups):
                    yield position, opened.project(batch)
                    position += batch.num_rows

    def rows_at(
        self,
        file: DataFile,
        positions: NDArray[np.int64] | BitMap64,
        schema: TableSchema,
        *,
        dictionary_columns: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """The rows at some positions, in order; row groups without any are not decoded.

        Args:
            positions: ascending, each once, below ``file.record_count``; a bitmap becomes a list one run at a time.
        """
        if not len(positions):
            return
        with self.open(file, schema, dictionary_columns=dictionary_columns) as opened:
            for first, rows, groups in opened.rows.group_runs():
                yield from opened.rows_of(groups, _between(positions, first, first + rows) - first)

    def identical_columns(self, one: DataFile, other: DataFile, schema: TableSchema) -> frozenset[str]:
        """Names of top-level columns with equal bytes, so equal values at equal positions, in two files.

        Empty if the files are not Parquet of one layout, or the columns have few bytes. A column that both lack counts
        if it has one value.
        """
        if {one.file_format, other.file_format} != {"PARQUET"}:
            return frozenset()
        layouts = []
        for file in (one, other):
            with self.open(file, schema) as opened:
                layouts.append(column_layouts(opened, schema.columns, file.constants))
        return identical_columns((one, other), layouts, io=self.io, table=self.table)

    def row_groups(self, file: DataFile) -> list[DataFile]:
        """The row groups of a Parquet file, in order, each as a file of its own."""
        with self.source(file.path) as source:
            metadata = read_footer(source)
            groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
            return file.parts([(group.num_rows, compressed_bytes(group)) for group in groups])

    @contextmanager
    def source(self, path: str, *, noun: str = "data file") -> Iterator[InputStream]:
        """Opens the bytes of a file, in any thread; errors name the file."""
        opener = data_file_input(self.io, path, table=self.table, noun=noun)
        with reading_data_file(path, table=self.table, noun=noun), opener.open() as source:
            yield source

    @contextmanager
    def open(
        self, file: DataFile | DeleteFile, schema: TableSchema, *, dictionary_columns: bool = False
    ) -> Iterator[ProjectedFile]:
        """Opens a file; see ``rows``."""
        if file.file_format not in READABLE_FORMATS:
            raise NotBuiltError(
                f"{file.noun} {file.path} of table {self.table} is {file.file_format}: this release reads "
                f"{', '.join(sorted(READABLE_FORMATS))}; rewrite the file, or wait for a release that reads it"
            )
        try:
            with (
                self.source(file.path, noun=file.noun) as source,
                self._opened(file, source, dictionary_columns=dictionary_columns) as rows,
            ):
                if rows.num_rows != file.record_count:
                    raise TerminalError(
                        f"{file.noun} {file.path} of table {self.table} holds {rows.num_rows} rows, but the table's "
                        f"metadata says {file.record_count}: the file was replaced or the metadata is wrong; restore "
                        "the file"
                    )
                projections = self.projections if isinstance(file, DataFile) else KeptProjections()
                found, projection = projections.of(
                    rows.schema, schema, file.constants, keep_dictionaries=dictionary_columns
                )
                columns, places = selected_columns(
                    rows.schema.names, projection.positions, dots_are_paths=isinstance(rows, ParquetRows)
                )
                if isinstance(rows, ParquetRows) and self.bound is not None:
                    size_bytes = partial(dictionary_bytes, rows.source, rows.file.metadata, columns)
                    self.bound(size_bytes, f"{file.noun} {file.path} of table {self.table}")
                yield ProjectedFile(
                    rows=rows,
                    file_columns=found,
                    projection=projection,
                    columns=columns,
                    places=places,
                    decoded=None if self.decoded is None else partial(self.decoded, file),
                )
        except ColumnError as error:
            raise error.in_file(file.path, table=self.table, noun=file.noun) from error

    @contextmanager
    def _opened(
        self, file: DataFile | DeleteFile, source: InputStream, *, dictionary_columns: bool
    ) -> Iterator[OpenedFile]:
        # Many small requests are fast to a local file only; elsewhere ORC files are copied first.
        is_near = is_local(file.path)
        if file.file_format != "PARQUET":
            # Few tables have ORC files of rows, so a task loads their reader only for a table that has.
            from icefloe.iceberg.files.orc_file import OrcRows

            with nullcontext(source) if is_near else _copied(source) as near:
                yield OrcRows.open(near, batch_rows=self.batch_rows)
            return
        is_data = isinstance(file, DataFile)
        rows = ParquetRows.open(
            source,
            batch_rows=self.batch_rows,
            pre_buffer=not is_near,
            dictionary_columns=dictionary_columns,
            footer=self.footers.get(file.path) if is_data else None,
            row_groups=file.row_groups if isinstance(file, DataFile) else None,
        )
        if is_data:
            self.footers.add(file.path, rows.footer)
        yield rows

    def check_values(self, rows: pa.RecordBatch, file: DataFile) -> None:
        """Stops if a value is not what its type allows.

        Text that is no UTF-8, or a decimal of too many digits: no sink can hold them, and to the shuffle they are
        damage.
        """
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            try:
                column.validate(full=True)
            except pa.ArrowInvalid as cause:
                raise ColumnError(
                    f"column {name!r} holds a value that its type does not allow ({one_line(cause)}): rewrite the row; "
                    "where the open batch needs it as it was, start over by icefloe reset, or with `columns` that "
                    "leave the column out"
                ).in_file(file.path, table=self.table) from cause


def _between(positions: NDArray[np.int64] | BitMap64, first: int, stop: int) -> NDArray[np.int64]:
    if isinstance(positions, BitMap64):
        # Not by making a bitmap of the range: its length comes from the file.
        inside = positions.copy()
        inside.remove_range(0, first)
        inside.remove_range(stop, max(stop, positions.max() + 1))
        return np.frombuffer(inside.to_array(), np.uint64).view(np.int64)
    return positions[slice(*np.searchsorted(positions, (first, stop)))]
