"""The positions that delete files delete from the data files of one map task."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
from icefloe.iceberg.catalog.file_io import is_local
from icefloe.iceberg.data_file import DataFile, DeleteFile, FileContent
from icefloe.iceberg.deletes.deletion_vector import VectorPrefetch
from icefloe.iceberg.deletes.equality_deletes import EqualityDeletes
from icefloe.iceberg.files.parquet_footer import KeptFooters
from icefloe.iceberg.files.reader import read_data_file
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.storage.requests import map_parallel

__all__ = ["DeletedPositions"]

_PATH: Final = NestedField(2147483546, "file_path", StringType(), required=False)
_POSITION: Final = NestedField(2147483545, "pos", LongType(), required=False)
_FIELDS: Final = (_PATH, _POSITION)


def read_position_deletes(
    delete_file: DeleteFile, *, data_files: Collection[str], io: FileIO, table: str
) -> dict[str, BitMap64]:
    """The deleted positions, by data file; they may be after its end.

    Read once, kept compressed; copies of the deleted rows are not read.

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
    """By name in files of writers that leave the ids out."""
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
    """For each row of a file in ``asked``: the file's index, and the deleted position."""
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
    return TerminalError(f"delete file {delete_file.path} of table {table} is damaged: {what}; restore the file")


_PARALLEL_READS: Final = 8
_READ_AHEAD_BYTES: Final = 32 << 20
"""The most bytes of position delete files that are read ahead at once; each file is read whole."""


class DeletedPositions:
    """Delete files resolved into positions: each is read once, when first asked for.

    Args:
        delete_files: their indexes in the sequence are their ids.
        memory_bytes: half for the keys of equality delete files (others are read again for each data file), half for
            deletion vectors. Compressed bitmaps of position delete files come on top.
    """

    def __init__(
        self,
        delete_files: Sequence[DeleteFile],
        *,
        equality_schemas: Mapping[tuple[int, ...], TableSchema],
        io: FileIO,
        table: str,
        data_files: Sequence[DataFile],
        memory_bytes: int,
        footers: KeptFooters | None = None,
    ) -> None:
        self._delete_files = delete_files
        self._io = io
        self._table = table
        self._data_files = frozenset(file.path for file in data_files)
        self._by_data_file: dict[int, Mapping[str, BitMap64]] = {}
        self._equality = EqualityDeletes(
            {
                delete_id: delete_file
                for delete_id, delete_file in enumerate(delete_files)
                if delete_file.content is FileContent.EQUALITY_DELETES
            },
            schemas=equality_schemas,
            io=io,
            table=table,
            memory_bytes=memory_bytes // 2,
            footers=footers,
        )
        self._vectors = VectorPrefetch(
            {
                delete_id: delete_file
                for delete_id, delete_file in enumerate(delete_files)
                if delete_file.is_deletion_vector
            },
            data_files=[file.path for file in data_files],
            io=io,
            table=table,
            memory_bytes=memory_bytes // 2,
        )

    def of(self, data_file: DataFile, delete_ids: Iterable[int]) -> dict[int, BitMap64]:
        """Positions by delete file, below the record count; do not change the shared bitmaps.

        The caller checks by sequence number and partition that a delete file applies. An equality delete file that
        deletes nothing may be missing.
        """
        if data_file.path not in self._data_files:
            raise ValueError(f"{data_file.path} is not among the {len(self._data_files)} data files of the task")
        by_key, by_position = set[int](), set[int]()
        for delete_id in delete_ids:
            is_by_key = self._delete_files[delete_id].content is FileContent.EQUALITY_DELETES
            (by_key if is_by_key else by_position).add(delete_id)
        found = self._equality.of(data_file, by_key)
        return found | {delete_id: self._by_position(data_file, delete_id) for delete_id in by_position}

    def _by_position(self, data_file: DataFile, delete_id: int) -> BitMap64:
        delete_file = self._delete_files[delete_id]
        if delete_file.referenced_data_file not in {None, data_file.path}:
            return BitMap64()
        if delete_file.is_deletion_vector:
            positions = self._vectors[delete_id]
        else:
            positions = self._positions_in(delete_id).get(data_file.path, BitMap64())
        return _below(data_file.record_count, positions)

    def _positions_in(self, delete_id: int) -> Mapping[str, BitMap64]:
        if delete_id not in self._by_data_file:
            ahead = self._read_ahead(delete_id)
            read = map_parallel(self._read, ahead, name="icefloe-position-deletes")
            self._by_data_file |= zip(ahead, read, strict=True)
        return self._by_data_file[delete_id]

    def _read(self, delete_id: int) -> Mapping[str, BitMap64]:
        return read_position_deletes(
            self._delete_files[delete_id], data_files=self._data_files, io=self._io, table=self._table
        )

    def _read_ahead(self, delete_id: int) -> list[int]:
        if is_local(self._delete_files[delete_id].path):
            return [delete_id]
        # One after another, a hundred small delete files on an object store would take a hundred round trips.
        ahead: list[int] = []
        size_bytes = 0
        for number in range(delete_id, len(self._delete_files)):
            delete_file = self._delete_files[number]
            is_of_keys = delete_file.content is FileContent.EQUALITY_DELETES
            if is_of_keys or delete_file.is_deletion_vector or number in self._by_data_file:
                continue
            size_bytes += delete_file.file_size_bytes
            if ahead and (size_bytes > _READ_AHEAD_BYTES or len(ahead) == _PARALLEL_READS):
                break
            ahead.append(number)
        return ahead


def _below(record_count: int, positions: BitMap64) -> BitMap64:
    if not positions or positions.max() < record_count:
        return positions
    inside = positions.copy()
    inside.remove_range(record_count, positions.max() + 1)
    return inside
