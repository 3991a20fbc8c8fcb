"""Position delete files: rows of (data file, position) that are deleted."""

from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import NameMapping
from pyiceberg.types import LongType, NestedField, StringType
from pyroaring import BitMap64

from icefloe.errors import TerminalError
from icefloe.iceberg.delete_file import DeleteFile
from icefloe.iceberg.files.reader import read_data_file
from icefloe.iceberg.schemas.table_schema import TableSchema

_PATH: Final = NestedField(2147483546, "file_path", StringType(), required=False)
_POSITION: Final = NestedField(2147483545, "pos", LongType(), required=False)
_FIELDS: Final = (_PATH, _POSITION)


def read_position_deletes(
    delete_file: DeleteFile, *, data_files: Collection[str], io: FileIO, table: str
) -> dict[str, BitMap64]:
    """The positions that a position delete file deletes, by data file; read once, kept compressed.

    Args:
        delete_file: a position delete file of the table; its optional copies of the deleted rows are not read.
        data_files: the paths to look for; rows for other data files are dropped.
        io: opens the file.
        table: its name, for errors.

    Returns:
        Only the data files that it names. Positions may be after the end of a data file.

    Raises:
        FileGoneError: the file does not exist.
        RecordCountError: it has more or fewer rows than the table's metadata says.
        NotBuiltError: it is in a format that this release cannot read.
        TerminalError: it is damaged or may not be read.
        TransientError: the storage did not answer.

    Source: https://iceberg.apache.org/spec/#position-delete-files
    """
    paths = list(data_files)
    asked = pa.array(paths, pa.large_string())
    found: dict[str, BitMap64] = {}
    for _, batch in read_data_file(delete_file, schema=_schema(), io=io, table=table, dictionary_columns=True):
        _check(batch, delete_file, table)
        places, positions = _asked_rows(batch, asked)
        for place, run in _runs(places, positions):
            found.setdefault(paths[place], BitMap64()).update(run)
    for bitmap in found.values():
        bitmap.run_optimize()
        bitmap.shrink_to_fit()
    return found


def _schema() -> TableSchema:
    """The columns by field id; by name in files of writers that leave the ids out."""
    names = [{"field-id": field.field_id, "names": [field.name]} for field in _FIELDS]
    return TableSchema.of(Schema(*_FIELDS), NameMapping.model_validate(names))


def _check(batch: pa.RecordBatch, delete_file: DeleteFile, table: str) -> None:
    path, position = batch.columns
    if path.null_count or position.null_count:
        raise _damaged("it has rows without a data file or without a position", delete_file, table)
    smallest = pc.min(position).as_py()
    if smallest is not None and smallest < 0:
        raise _damaged(f"it deletes the position {smallest}", delete_file, table)


def _asked_rows(batch: pa.RecordBatch, asked: pa.Array) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Rows for the data files in ``asked``: the index of the data file in it, and the deleted position."""
    path, position = batch.columns
    # Each path is looked up once, not once for each row: a delete file names few data files, each many times.
    encoded = path if pa.types.is_dictionary(path.type) else path.dictionary_encode()
    places = _values(pc.fill_null(pc.index_in(encoded.dictionary, asked), -1).take(encoded.indices))
    positions = _values(position)
    rows = np.flatnonzero(places >= 0)
    if len(rows) == len(places):
        return places, positions
    return places[rows], positions[rows]


def _runs(places: NDArray[np.int32], positions: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """The positions of each data file; writers sort by data file, so there is usually nothing to sort."""
    if (np.diff(places) < 0).any():
        order = np.argsort(places, kind="stable")
        places, positions = places[order], positions[order]
    starts = [0, *(np.flatnonzero(np.diff(places)) + 1).tolist(), len(places)]
    for start, stop in pairwise(starts):
        if stop > start:
            yield int(places[start]), positions[start:stop]


def _values(array: Any) -> NDArray[Any]:
    return array.to_numpy(zero_copy_only=False)


def _damaged(what: str, delete_file: DeleteFile, table: str) -> TerminalError:
    return TerminalError(
        f"delete file {delete_file.path} of table {table} is damaged: {what}; restore the file",
        path=delete_file.path,
        table=table,
    )
