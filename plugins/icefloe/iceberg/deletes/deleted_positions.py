"""The positions that delete files delete from the data files of one map task.

A blob of a Puffin file of type ``deletion-vector-v1`` holds the positions of one data file, in this order:

    4 bytes   length of magic and vector, big-endian
    4 bytes   magic D1 D3 39 64
              vector: a 64-bit roaring bitmap in the portable format, little-endian
    4 bytes   CRC-32 of magic and vector, big-endian

Source: https://iceberg.apache.org/puffin-spec/#deletion-vector-v1-blob-type
"""

import os
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
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

from icefloe.errors import TerminalError, one_line
from icefloe.iceberg.catalog.file_io import data_file_input, is_local, reading_data_file
from icefloe.iceberg.data_file import DataFile, DeleteFile, FileContent
from icefloe.iceberg.deletes.equality_deletes import EqualityDeletes, positions_by, runs_of_at_most
from icefloe.iceberg.files.reader import FileReader
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.storage.requests import map_parallel

__all__ = ["DeletedPositions"]


_MAGIC: Final = b"\xd1\xd3\x39\x64"
_MIN_BYTES: Final = 20
"""Size of a blob without positions: length, magic, a vector that is only its count of 8 bytes, and checksum."""


def read_deletion_vectors(vectors: Sequence[DeleteFile], *, io: FileIO, table: str) -> list[BitMap64]:
    """The positions that deletion vectors of one Puffin file delete from their data files.

    One ranged read also fetches the bytes between them.
    """
    first = vectors[0]
    opener = data_file_input(io, first.path, table=table, noun=first.noun)
    with reading_data_file(first.path, table=table, noun=first.noun), opener.open() as source:
        file_size = source.seek(0, os.SEEK_END)
        places = []
        for vector in vectors:
            with _naming(vector, table):
                places.append(_place(vector, file_size))
        start, stop = min(start for start, _ in places), max(stop for _, stop in places)
        source.seek(start)
        content = source.read(stop - start)
    found = []
    for vector, (first_byte, end) in zip(vectors, places, strict=True):
        with _naming(vector, table):
            blob = bytes(content[first_byte - start : end - start])
            found.append(decode_deletion_vector(blob, record_count=vector.record_count))
    return found


def decode_deletion_vector(blob: bytes, *, record_count: int) -> BitMap64:
    """The positions in a blob.

    >>> vector = BitMap64([3, 7]).serialize()
    >>> body = _MAGIC + vector
    >>> blob = len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
    >>> decode_deletion_vector(blob, record_count=2)
    BitMap64([3, 7])
    """
    if len(blob) < _MIN_BYTES:
        raise ValueError(f"it has {len(blob)} bytes, fewer than {_MIN_BYTES}")
    length, body, checksum = int.from_bytes(blob[:4], "big"), blob[4:-4], int.from_bytes(blob[-4:], "big")
    if length != len(body):
        raise ValueError(f"its header says {length} bytes, but it has {len(body)}")
    if not body.startswith(_MAGIC):
        raise ValueError(f"it begins with {body[:4].hex()} instead of {_MAGIC.hex()}")
    # Before the bitmap is decoded: C code does that, and should see only what the writer wrote.
    if zlib.crc32(body) != checksum:
        raise ValueError("its checksum does not match")
    try:
        positions = BitMap64.deserialize(body[len(_MAGIC) :])
    except ValueError as cause:
        raise ValueError("its bitmap cannot be decoded") from cause
    if len(positions) != record_count:
        raise ValueError(f"it holds {len(positions)} positions, but the table's metadata says {record_count}")
    return positions


@contextmanager
def _naming(vector: DeleteFile, table: str) -> Iterator[None]:
    try:
        yield
    except ValueError as cause:
        raise TerminalError(
            f"deletion vector {vector.path} of data file {vector.referenced_data_file} in table {table} is damaged: "
            f"{one_line(cause)}; restore the file"
        ) from cause


def _place(vector: DeleteFile, file_size: int) -> tuple[int, int]:
    """Checked against the file's size: a wrong length must not decide what is allocated."""
    offset, size = vector.content_offset, vector.content_size_bytes
    if offset is None or size is None:
        raise ValueError("the table's metadata does not give its place in the file")
    if min(offset, size) < 0 or offset + size > file_size:
        raise ValueError(f"it lies at {offset} with {size} bytes in a file of {file_size}")
    return offset, offset + size


_PARALLEL_READS: Final = 8
_GAP_BYTES: Final = 1 << 20
"""The largest gap that is fetched along with its neighbours instead of asking for each of them."""
_READ_BYTES: Final = 8 << 20
"""The most that one request fetches, unless one vector is larger."""


class VectorPrefetch:
    """Deletion vectors by number, a window of data files at a time.

    The first vector asked for brings those of the next data files too, as many as fit into memory, by few requests.

    Args:
        memory_bytes: of the vectors of a window, unless one data file has more.
    """

    def __init__(
        self,
        vectors: Mapping[int, DeleteFile],
        *,
        data_files: Sequence[str],
        io: FileIO,
        table: str,
        memory_bytes: int,
    ) -> None:
        self._vectors = vectors
        self._io = io
        self._table = table
        planned = list(windows(vectors, data_files, memory_bytes=memory_bytes))
        self._window_of = {number: window for window in planned for number in window}
        self._held: dict[int, BitMap64] = {}

    def __getitem__(self, number: int) -> BitMap64:
        if number not in self._held:
            # Freed first, so that two windows are never in memory.
            self._held = {}
            self._held = self._read(self._window_of[number])
        return self._held[number]

    def _read(self, window: Collection[int]) -> dict[int, BitMap64]:
        groups = list(neighbours({number: self._vectors[number] for number in window}))

        def read(group: Sequence[int]) -> list[BitMap64]:
            members = [self._vectors[number] for number in group]
            return read_deletion_vectors(members, io=self._io, table=self._table)

        is_near = all(is_local(self._vectors[number].path) for number in window)
        # Of a local disk one reader takes all there is.
        found = map_parallel(read, groups, at_once=1 if is_near else _PARALLEL_READS, name="icefloe-deletion-vectors")
        return {
            number: bitmap
            for group, bitmaps in zip(groups, found, strict=True)
            for number, bitmap in zip(group, bitmaps, strict=True)
        }


def windows(
    vectors: Mapping[int, DeleteFile], data_files: Sequence[str], *, memory_bytes: int
) -> Iterator[tuple[int, ...]]:
    """Vectors of consecutive data files, as many as fit into memory."""
    by_data_file: dict[str, list[int]] = {path: [] for path in data_files}
    for number, vector in vectors.items():
        by_data_file.get(vector.referenced_data_file or "", []).append(number)
    sizes = [sum(vectors[number].size_bytes for number in numbers) for numbers in by_data_file.values()]
    for run in runs_of_at_most(memory_bytes, list(by_data_file.values()), sizes):
        if window := tuple(chain.from_iterable(run)):
            yield window


def neighbours(vectors: Mapping[int, DeleteFile]) -> Iterator[tuple[int, ...]]:
    """Vectors of one file with little between them, for one request."""
    # Writers put the vectors of many data files into one Puffin file: sorted by place, neighbours take one request.
    in_order = sorted(vectors, key=lambda number: (vectors[number].path, *_span(vectors[number])))
    group: list[int] = []
    start = stop = 0
    for number in in_order:
        offset, size_bytes = _span(vectors[number])
        is_near = group and vectors[group[-1]].path == vectors[number].path and offset <= stop + _GAP_BYTES
        if not is_near or max(stop, offset + size_bytes) - start > _READ_BYTES:
            if group:
                yield tuple(group)
            group, start, stop = [], offset, offset
        group.append(number)
        stop = max(stop, offset + size_bytes)
    if group:
        yield tuple(group)


def _span(vector: DeleteFile) -> tuple[int, int]:
    return vector.content_offset or 0, vector.content_size_bytes or 0


_PATH: Final = NestedField(2147483546, "file_path", StringType(), required=False)
_POSITION: Final = NestedField(2147483545, "pos", LongType(), required=False)
_FIELDS: Final = (_PATH, _POSITION)


def read_position_deletes(
    delete_file: DeleteFile, reader: FileReader, *, data_files: Collection[str]
) -> dict[str, BitMap64]:
    """The deleted positions, by data file; they may be after its end.

    Read once, kept compressed; copies of the deleted rows are not read.

    Source: https://iceberg.apache.org/spec/#position-delete-files
    """
    paths = list(data_files)
    asked = pa.array(paths, pa.large_string())
    found: dict[str, BitMap64] = {}
    for _, batch in reader.rows(delete_file, _schema(), dictionary_columns=True):
        _check(batch, delete_file, reader.table)
        places, positions = _asked_rows(batch, asked)
        for place, run in positions_by(places, positions):
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


def _values(array: Any) -> NDArray[Any]:
    return array.to_numpy(zero_copy_only=False)


def _damaged(what: str, delete_file: DeleteFile, table: str) -> TerminalError:
    return TerminalError(f"delete file {delete_file.path} of table {table} is damaged: {what}; restore the file")


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
        reader: FileReader,
        data_files: Sequence[DataFile],
        memory_bytes: int,
    ) -> None:
        self._delete_files = delete_files
        self._reader = reader
        self._data_files = frozenset(file.path for file in data_files)
        self._by_data_file: dict[int, Mapping[str, BitMap64]] = {}
        self._equality = EqualityDeletes(
            {
                delete_id: delete_file
                for delete_id, delete_file in enumerate(delete_files)
                if delete_file.content is FileContent.EQUALITY_DELETES
            },
            schemas=equality_schemas,
            reader=reader,
            memory_bytes=memory_bytes // 2,
        )
        self._vectors = VectorPrefetch(
            {
                delete_id: delete_file
                for delete_id, delete_file in enumerate(delete_files)
                if delete_file.is_deletion_vector
            },
            data_files=[file.path for file in data_files],
            io=reader.io,
            table=reader.table,
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
        return read_position_deletes(self._delete_files[delete_id], self._reader, data_files=self._data_files)

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
