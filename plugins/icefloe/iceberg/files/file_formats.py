"""Opening a file of rows by its format."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Final

import pyarrow as pa
from pyiceberg.io import InputStream

from icefloe.iceberg.data_file import RowGroups
from icefloe.iceberg.files.kept_footers import KeptFooters
from icefloe.iceberg.files.opened_file import OpenedFile
from icefloe.iceberg.files.parquet_file import ParquetRows
from icefloe.storage.local_folders import local_folders, on_local_disk, scratch_file, task_folder

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
        file_format: one of READABLE_FORMATS.
        source: the file.
        is_near: True if it answers many small requests fast; otherwise ORC and Avro files are copied first.
        batch_rows: the most rows in a batch.
        dictionary_columns: keep text columns encoded that are encoded in the file, if the format shows it.
        path: path of the file, under which its footer is kept.
        footers: footers of Parquet files that were opened before; None: the footer is read.
        row_groups: the row groups of a Parquet file to read; None: all.
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
        yield _orc(near, batch_rows=batch_rows) if file_format == "ORC" else _avro(near, batch_rows=batch_rows)


# Hardly any table has ORC or Avro files of rows, so a task loads these readers only for a table that has.
def _orc(source: InputStream, *, batch_rows: int) -> OpenedFile:
    from icefloe.iceberg.files.orc_file import OrcRows

    return OrcRows.open(source, batch_rows=batch_rows)


def _avro(source: InputStream, *, batch_rows: int) -> OpenedFile:
    from icefloe.iceberg.files.avro_file import AvroRows

    return AvroRows.open(source, batch_rows=batch_rows)


@contextmanager
def _copied(source: InputStream) -> Iterator[pa.NativeFile]:
    """The file on a local disk: pyarrow asks for 128 KiB of an ORC column at a time, Avro has a block every 64 KiB."""
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
