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
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import NameMapping
from pyiceberg.types import LongType, NestedField, StringType
from pyroaring import BitMap64

from icefloe.errors import TerminalError, one_line
from icefloe.iceberg.catalog.file_io import is_local
from icefloe.iceberg.data_file import DataFile, DeleteFile, FileContent
from icefloe.iceberg.deletes.equality_deletes import EqualityDeletes, positions_by, runs_of_at_most
from icefloe.iceberg.files.reader import FileReader
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.storage.requests import map_parallel

__all__ = ["DeletedPositions"]


_MAGIC: Final = b"\xd1\xd3\x39\x64"
_MIN_BYTES: Final = 20
"""Size of a blob without positions: length, magic, a vector that is only its count of 8 bytes, and checksum."""
_SMALL_FILE_BYTES: Final = 8 << 20


class DeletionVectors:
    """Reads deletion vectors, in any thread; keeps ``memory_bytes`` of small Puffin files, at least one, read whole."""

    def __init__(self, reader: FileReader, *, memory_bytes: int) -> None:
        self._reader = reader
        # Writers put the vectors of many data files into one Puffin file.
        self._small_file = lru_cache(maxsize=max(1, memory_bytes // _SMALL_FILE_BYTES))(self._read_small_file)

    def read(self, vector: DeleteFile) -> BitMap64:
        """The positions that a vector deletes from its data file."""
        try:
            return decode_deletion_vector(self._blob(vector), record_count=vector.record_count)
        except ValueError as cause:
            raise TerminalError(
                f"deletion vector {vector.path} of data file {vector.referenced_data_file} in table "
                f"{self._reader.table} is damaged: {one_line(cause)}; restore the file"
            ) from cause

    def _blob(self, vector: DeleteFile) -> bytes:
        small = self._small_file(vector.path)
        if small is not None:
            offset, size = _place(vector, len(small))
            return small[offset : offset + size]
        with self._reader.source(vector.path, noun=vector.noun) as source:
            offset, size = _place(vector, source.seek(0, os.SEEK_END))
            source.seek(offset)
            return source.read(size)

    def _read_small_file(self, path: str) -> bytes | None:
        with self._reader.source(path, noun="deletion vector") as source:
            size = source.seek(0, os.SEEK_END)
            source.seek(0)
            return source.read(size) if size <= _SMALL_FILE_BYTES else None


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


def _place(vector: DeleteFile, file_size: int) -> tuple[int, int]:
    """Checked against the file's size: a wrong length must not decide what is allocated."""
    offset, size = vector.content_offset, vector.content_size_bytes
    if offset is None or size is None:
        raise ValueError("the table's metadata does not give its place in the file")
    if min(offset, size) < 0 or offset + size > file_size:
        raise ValueError(f"it lies at {offset} with {size} bytes in a file of {file_size}")
    return offset, size


_PATH: Final = NestedField(2147483546, "file_path", StringType(), required=False)
_POSITION: Final = NestedField(2147483545, "pos", LongType(), required=False)
_FIELDS: Final = (_PATH, _POSITION)


def read_position_deletes(
    delete_file: DeleteFile, reader: FileReader, *, data_files: Collection[str]
) -> dict[str, BitMap64]:
    """The deleted positions by data file, which may be after its end; copies of the deleted rows are not read."""
    # Source: https://iceberg.apache.org/spec/#position-delete-files
    paths = list(data_files)
    asked = pa.array(paths, pa.large_string())
    found: dict[str, BitMap64] = {}
    for _, batch in reader.rows(delete_file, _schema(), dictionary_columns=True):
        if (damage := _damage_in(batch)) is not None:
            raise TerminalError(
                f"delete file {delete_file.path} of table {reader.table} is damaged: {damage}; restore the file"
            )
        places, positions = _asked_rows(batch, asked)
        for place, run in positions_by(places, positions):
            found.setdefault(paths[place], BitMap64()).update(run)
    for bitmap in found.values():
        bitmap.run_optimize()
        bitmap.shrink_to_fit()
    return found


@cache
def _schema() -> TableSchema:
    """By name in files of writers that leave the ids out."""
    names = [{"field-id": field.field_id, "names": [field.name]} for field in _FIELDS]
    return TableSchema.of(Schema(*_FIELDS), NameMapping.model_validate(names))


def _damage_in(batch: pa.RecordBatch) -> str | None:
    path, position = batch.columns
    if path.null_count or position.null_count:
        return "it has rows without a data file or without a position"
    smallest = pc.min(position).as_py()
    return f"it deletes the position {smallest}" if smallest is not None and smallest < 0 else None


def _asked_rows(batch: pa.RecordBatch, asked: pa.Array) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """For each row of a file in ``asked``: the file's index, and the deleted position."""
    path, position = batch.columns
    # Each path is looked up once, not once for each row: a delete file names few data files, each many times.
    encoded = path if pa.types.is_dictionary(path.type) else path.dictionary_encode()
    places = pc.fill_null(pc.index_in(encoded.dictionary, asked), -1).take(encoded.indices)
    found = places.to_numpy(zero_copy_only=False), position.to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(found[0] >= 0)
    return found if len(rows) == batch.num_rows else (found[0][rows], found[1][rows])


_PARALLEL_READS: Final = 8
_READ_BYTES: Final = 32 << 20
"""The most bytes of delete files that are read at once; each position delete file is read whole."""


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
            dict(enumerate(delete_files)),
            schemas=equality_schemas,
            reader=reader,
            memory_bytes=memory_bytes // 2,
        )
        self._vectors = DeletionVectors(reader, memory_bytes=memory_bytes // 2)

    def of(self, data_file: DataFile, delete_ids: Iterable[int]) -> dict[int, BitMap64]:
        """Positions by delete file, below the record count; do not change the shared bitmaps.

        Only of ``data_files``; the caller checks by sequence number and partition that a delete file applies. One that
        deletes nothing may be missing.
        """
        by_key, by_position = set[int](), list[int]()
        for delete_id in delete_ids:
            delete_file = self._delete_files[delete_id]
            if delete_file.content is FileContent.EQUALITY_DELETES:
                by_key.add(delete_id)
            elif delete_file.referenced_data_file in {None, data_file.path}:
                by_position.append(delete_id)
        found = self._equality.of(data_file, by_key)
        for delete_id, by_path in self._in_delete_files(by_position).items():
            found[delete_id] = _below(data_file.record_count, by_path.get(data_file.path, BitMap64()))
        return found

    def _in_delete_files(self, delete_ids: Sequence[int]) -> Mapping[int, Mapping[str, BitMap64]]:
        """The positions in delete files, by data file."""
        known = self._by_data_file
        found = {delete_id: known[delete_id] for delete_id in delete_ids if delete_id in known}
        unread = [delete_id for delete_id in delete_ids if delete_id not in found]
        sizes = [self._delete_files[delete_id].size_bytes for delete_id in unread]
        for run in runs_of_at_most(_READ_BYTES, unread, sizes):
            # Of a local disk one reader takes all there is.
            at_once = 1 if is_local(self._delete_files[run[0]].path) else _PARALLEL_READS
            read = map_parallel(self._read, run, at_once=at_once)
            found |= zip(run, read, strict=True)
        # A vector is of one data file, which is asked for once.
        of_many = [delete_id for delete_id in unread if not self._delete_files[delete_id].is_deletion_vector]
        self._by_data_file |= {delete_id: found[delete_id] for delete_id in of_many}
        return found

    def _read(self, delete_id: int) -> Mapping[str, BitMap64]:
        delete_file = self._delete_files[delete_id]
        if delete_file.is_deletion_vector:
            return {delete_file.referenced_data_file or "": self._vectors.read(delete_file)}
        return read_position_deletes(delete_file, self._reader, data_files=self._data_files)


def _below(record_count: int, positions: BitMap64) -> BitMap64:
    if not positions or positions.max() < record_count:
        return positions
    inside = positions.copy()
    inside.remove_range(record_count, positions.max() + 1)
    return inside
