"""Moves files: the rows of a hash range that cancel across identities, by reduce range (docs/formats.md).

    header | entry of range 0 | entry of range 1 | ... | block of range 1 | block of range 4 | ... | checksum

A reduce task reads its own entry and, if it is not empty, its own block.
"""

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from icefloe.batch.reduce.spilled_moves import SpilledMoves, WeightedHashes
from icefloe.errors import TerminalError, TransientError
from icefloe.shuffle.blocks import CorruptBlockError
from icefloe.storage.store import RangeMissingError, Store

_MAGIC: Final = b"IFMV"
_VERSION: Final = 1
_HEADER: Final = struct.Struct(">4sII")
_CRC32: Final = struct.Struct(">I")
_ENTRY: Final = struct.Struct(">QQI")
_ENTRIES_AT: Final = _HEADER.size + _CRC32.size
_ENTRY_BYTES: Final = _ENTRY.size + _CRC32.size
_READ_BYTES: Final = 8 << 20


class CorruptMovesError(TransientError):
    """The bytes of a moves file are not what its task wrote; it must be written again."""

    reason: str


def write_moves_file(path: Path, found: SpilledMoves, *, num_ranges: int) -> int:
    """Writes the file of all ranges on local disk; the same rows give the same bytes. Holds one range's rows at a time.

    Returns:
        The number of rows.
    """
    entries, rows = [], 0
    with path.open("w+b") as file:
        file.write(bytes(_ENTRIES_AT + num_ranges * _ENTRY_BYTES))
        for range_id in range(num_ranges):
            moves = found.of(range_id)
            block = moves.ordered().to_bytes() if len(moves.weights) else b""
            entries.append(_sealed(_ENTRY.pack(file.tell() if block else 0, len(block), zlib.crc32(block))))
            rows += len(moves.weights)
            file.write(block)
        file.seek(0)
        file.write(b"".join([_sealed(_HEADER.pack(_MAGIC, _VERSION, num_ranges)), *entries]))
        file.seek(0)
        crc32 = 0
        while data := file.read(_READ_BYTES):
            crc32 = zlib.crc32(data, crc32)
        file.write(_CRC32.pack(crc32))
    return rows


def has_whole_moves(store: Store, key: str) -> bool:
    """True if there is a moves file under a key and every byte of it is as it was written."""
    size_bytes = store.size(key)
    if size_bytes is None or size_bytes < _ENTRIES_AT + _CRC32.size:
        return False
    crc32, end = 0, size_bytes - _CRC32.size
    for start in range(0, end, _READ_BYTES):
        [data] = store.get_ranges(key, [(start, min(end, start + _READ_BYTES))])
        crc32 = zlib.crc32(data, crc32)
    return _CRC32.pack(crc32) == store.get_ranges(key, [(end, size_bytes)])[0]


class MovesEntry(NamedTuple):
    """The place of a reduce range's rows in a moves file.

    Attributes:
        offset: of the block in the file.
        length: bytes of the block; 0: the range has no rows there.
        crc32: of the block.
    """

    offset: int
    length: int
    crc32: int


def read_entry(store: Store, key: str, range_id: int) -> MovesEntry:
    """The place of the rows of one reduce range.

    Raises:
        KeyMissingError: there is no such file.
        CorruptMovesError: it is damaged.
        TerminalError: another release wrote it.
    """
    entry_at = _ENTRIES_AT + range_id * _ENTRY_BYTES
    with _whole():
        header, entry = store.get_ranges(key, [(0, _ENTRIES_AT), (entry_at, entry_at + _ENTRY_BYTES)])
    magic, version, _ = _HEADER.unpack(_unsealed(header))
    if (magic, version) != (_MAGIC, _VERSION):
        raise TerminalError(
            f"{store.url}/{key} is a moves file of version {version}, and this release knows version {_VERSION}; "
            "another release wrote it, go on with that release"
        )
    return MovesEntry(*_ENTRY.unpack(_unsealed(entry)))


def read_moves(store: Store, key: str, entry: MovesEntry) -> WeightedHashes:
    """The rows of one reduce range in a moves file.

    Raises:
        KeyMissingError: there is no such file.
        CorruptMovesError: it is damaged.
    """
    if not entry.length:
        return WeightedHashes.none()
    with _whole():
        [block] = store.get_ranges(key, [(entry.offset, entry.offset + entry.length)])
    if zlib.crc32(block) != entry.crc32:
        raise _corrupt("a block does not match its checksum")
    try:
        return WeightedHashes.from_bytes(block)
    except CorruptBlockError as cause:
        raise _corrupt(cause.reason) from cause


@contextmanager
def _whole() -> Iterator[None]:
    try:
        yield
    except RangeMissingError as cause:
        raise _corrupt("it was cut") from cause


def _sealed(data: bytes) -> bytes:
    return data + _CRC32.pack(zlib.crc32(data))


def _unsealed(data: bytes) -> bytes:
    content, seal = data[: -_CRC32.size], data[-_CRC32.size :]
    if _CRC32.pack(zlib.crc32(content)) != seal:
        raise _corrupt("its header or an entry does not match its checksum")
    return content


def _corrupt(reason: str) -> CorruptMovesError:
    return CorruptMovesError(f"a moves file is damaged: {reason}; run again, which writes it once more", reason=reason)
