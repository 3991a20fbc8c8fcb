"""Deletion vectors: the positions that one blob of a Puffin file deletes from one data file.

A blob of type ``deletion-vector-v1`` holds, in this order:

    4 bytes   length of magic and vector, big-endian
    4 bytes   magic D1 D3 39 64
              vector: a 64-bit roaring bitmap in the portable format, little-endian
    4 bytes   CRC-32 of magic and vector, big-endian

Source: https://iceberg.apache.org/puffin-spec/#deletion-vector-v1-blob-type
"""

import os
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from pyiceberg.io import FileIO
from pyroaring import BitMap64

from icefloe.errors import TerminalError, one_line
from icefloe.iceberg.catalog.file_io import data_file_input, is_local, reading_data_file
from icefloe.iceberg.data_file import DeleteFile
from icefloe.storage.requests import map_parallel

Found = TypeVar("Found")

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
        places = [_of_vector(vector, table, partial(_place, vector, file_size)) for vector in vectors]
        start, stop = min(start for start, _ in places), max(stop for _, stop in places)
        source.seek(start)
        content = source.read(stop - start)

    def decoded(vector: DeleteFile, place: tuple[int, int]) -> BitMap64:
        blob = bytes(content[place[0] - start : place[1] - start])
        decode = partial(decode_deletion_vector, blob, record_count=vector.record_count)
        return _of_vector(vector, table, decode)

    return [decoded(vector, place) for vector, place in zip(vectors, places, strict=True)]


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


def _of_vector(vector: DeleteFile, table: str, find: Callable[[], Found]) -> Found:
    try:
        return find()
    except ValueError as cause:
        raise _damaged(vector, cause, table) from cause


def _place(vector: DeleteFile, file_size: int) -> tuple[int, int]:
    """Checked against the file's size: a wrong length must not decide what is allocated."""
    offset, size = vector.content_offset, vector.content_size_bytes
    if offset is None or size is None:
        raise ValueError("the table's metadata does not give its place in the file")
    if min(offset, size) < 0 or offset + size > file_size:
        raise ValueError(f"it lies at {offset} with {size} bytes in a file of {file_size}")
    return offset, offset + size


def _damaged(delete_file: DeleteFile, cause: ValueError, table: str) -> TerminalError:
    data_file = delete_file.referenced_data_file
    return TerminalError(
        f"deletion vector {delete_file.path} of data file {data_file} in table {table} is damaged: "
        f"{one_line(cause)}; restore the file"
    )


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
    window: list[int] = []
    window_bytes = 0
    for numbers in by_data_file.values():
        size_bytes = sum(vectors[number].size_bytes for number in numbers)
        if window and window_bytes + size_bytes > memory_bytes:
            yield tuple(window)
            window, window_bytes = [], 0
        window.extend(numbers)
        window_bytes += size_bytes
    if window:
        yield tuple(window)


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
