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
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from pyiceberg.io import FileIO
from pyroaring import BitMap64

from icefloe.errors import TerminalError, one_line
from icefloe.iceberg.catalog.file_io import data_file_input, reading_data_file
from icefloe.iceberg.delete_file import DeleteFile

Found = TypeVar("Found")

_MAGIC: Final = b"\xd1\xd3\x39\x64"
_MIN_BYTES: Final = 20
"""Size of a blob without positions: length, magic, a vector that is only its count of 8 bytes, and checksum."""


def read_deletion_vectors(vectors: Sequence[DeleteFile], *, io: FileIO, table: str) -> list[BitMap64]:
    """The positions that deletion vectors of one Puffin file delete from their data files, in one ranged read.

    Args:
        vectors: of the table, in one file; the bytes between them are read too.
        io: opens the file.
        table: its name, for errors.

    Raises:
        FileGoneError: the file does not exist.
        TerminalError: a vector is damaged, contradicts the table's metadata, or may not be read.
        TransientError: the storage did not answer.
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

    Args:
        blob: the bytes as they are in the Puffin file.
        record_count: number of positions by the table's metadata.

    Raises:
        ValueError: the blob is damaged, or holds another number of positions.
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
    """Range of the blob, checked against the size of the file: a wrong length must not decide how much is allocated."""
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
        f"{one_line(cause)}; restore the file",
        path=delete_file.path,
        data_file=data_file,
        table=table,
    )
