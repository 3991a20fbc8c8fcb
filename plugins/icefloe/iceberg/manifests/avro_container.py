"""An Avro object container file in memory: its schema, and its blocks of rows, decompressed one at a time.

Source: https://avro.apache.org/docs/1.12.0/specification/#object-container-files
"""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from struct import Struct
from typing import Final, Self, TypeVar

import pyarrow as pa
from pyiceberg.avro.decoder import new_decoder

from icefloe.errors import one_line
from icefloe.iceberg.unreadable import UndecodableError

MAX_BLOCK_BYTES: Final = 128 << 20
"""The most bytes of one block, compressed or not. Writers end a block at 16 KiB to some MiB, or after one larger row.
Up to three copies of a block are held at once. The 512 MiB that a core has in addition to ``memory_bytes`` cover
them."""
_CHUNK_BYTES: Final = 1 << 20


def decompressed(content: bytes, codec: str) -> bytes:
    """The bytes of a block, by a codec that Iceberg's writers have.

    >>> decompressed(zlib.compress(b"rows")[2:-4], "deflate")
    b'rows'
    """
    _check_size(len(content))
    match codec:
        case "null":
            return content
        case "deflate":
            inflater = zlib.decompressobj(wbits=-15)
            # One byte more than allowed is enough to see that there is too much.
            plain = inflater.decompress(content, MAX_BLOCK_BYTES + 1)
            _check_size(len(plain))
            if not inflater.eof:
                raise EOFError("a block ends before its compressed bytes do")
            return plain
        case "snappy":
            return _unsnapped(content)
        case "zstandard":
            return _unzstd(content)
    raise ValueError(f"icefloe does not read the codec {codec!r}")


def _check_size(size_bytes: int) -> None:
    if size_bytes > MAX_BLOCK_BYTES:
        raise ValueError(f"a block has more than {MAX_BLOCK_BYTES} bytes, the most that icefloe reads at once")


def _unsnapped(content: bytes) -> bytes:
    """Snappy gives the size as an unsigned varint; Avro adds a checksum at the end."""
    size = 0
    for place, byte in enumerate(content[:5]):
        size |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            break
    _check_size(size)
    plain: bytes = pa.Codec("snappy").decompress(content[:-4], size, asbytes=True)
    if zlib.crc32(plain).to_bytes(4, "big") != content[-4:]:
        raise ValueError("the checksum of a block does not match")
    return plain


def _unzstd(content: bytes) -> bytes:
    # Not one buffer that grows: it is copied to grow, and again to become bytes.
    chunks, size_bytes = [], 0
    with pa.CompressedInputStream(pa.BufferReader(content), "zstd") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            chunks.append(chunk)
            size_bytes += len(chunk)
            _check_size(size_bytes)
    return b"".join(chunks)


MAX_VALUES: Final = 1 << 13
"""The most values of one row outside of arrays and maps, counted by the schema."""
_PADDING: Final = bytes(8 * MAX_VALUES)
"""Covers the numbers that a row reads after the last byte: zeros are numbers of one byte each."""
_MOST_ELEMENTS: Final = 1 << 21
"""The most values in arrays and maps of one row: each is an object of about 100 bytes."""

_FLOAT, _DOUBLE = Struct("<f"), Struct("<d")

Row = TypeVar("Row")


class AvroDecoder:
    """PyIceberg's decoder, kept within its bytes, whose end it does not check."""

    __slots__ = (
        "_left_elements", "_limit", "_num_elements", "_read", "_read_ints", "read_boolean", "read_int", "tell",
    )  # fmt: skip

    def __init__(self, content: bytes) -> None:
        # Padding covers the numbers of a row that begins inside; `check` refuses values that ended outside.
        decoder = new_decoder(content + _PADDING)
        self._limit = self._left_elements = len(content)
        self._num_elements = 0  # values in arrays and maps of the present row
        self._read, self._read_ints = decoder.read, decoder.read_ints
        self.tell, self.read_boolean, self.read_int = decoder.tell, decoder.read_boolean, decoder.read_int

    def rows(self, count: int, read: Callable[[Self], Row]) -> Iterator[Row]:
        """Read so many rows, which must end at the last byte."""
        self._require(count)
        for _ in range(count):
            self._num_elements = 0
            row = read(self)
            self.check()
            yield row
        if self.tell() != self._limit:
            raise ValueError("a block does not end after its last row")

    def check(self) -> None:
        """EOFError if a value ended after the last byte."""
        if self.tell() > self._limit:
            raise EOFError(f"a value ends after the last of {self._limit} bytes")

    def read_float(self) -> float:
        """Little-endian."""
        return _FLOAT.unpack(self._read(4))[0]

    def read_double(self) -> float:
        """Little-endian; PyIceberg 0.12 would turn them into a float."""
        return _DOUBLE.unpack(self._read(8))[0]

    def read_fixed(self, size_bytes: int) -> bytes:
        """That many bytes."""
        self._require(size_bytes)
        return self._read(size_bytes)

    def read_bytes(self) -> bytes:
        """Bytes whose number comes before them."""
        return self.read_fixed(self.read_int())

    def read_text(self) -> str:
        """UTF-8, as ``read_bytes``."""
        return self.read_bytes().decode()

    def read_numbered_numbers(self) -> Sequence[int]:
        """Keys and values of a map, one after the other: most such maps of a manifest are of no use to planning."""
        found: list[int] = []
        while count := self.elements(2):
            for left in range(2 * count, 0, -MAX_VALUES):
                found += self._read_ints(min(left, MAX_VALUES))
                self.check()
        return found

    def read_numbered_bytes(self) -> Mapping[int, bytes]:
        """A map of numbers to bytes."""
        # Bound here, as a manifest has a hundred for each file.
        read_int, tell, read, limit = self.read_int, self.tell, self._read, self._limit
        found: dict[int, bytes] = {}
        while count := self.elements(2):
            for _ in range(count):
                key, size_bytes = read_int(), read_int()
                if not 0 <= size_bytes <= limit - tell():
                    raise self._ended(size_bytes)
                found[key] = read(size_bytes)
        return found

    def elements(self, width: int) -> int:
        """The number of elements in the next block of an array or map, each of ``width`` values; 0 at the end."""
        count = self.read_int()
        if count < 0:
            # The size of these elements in bytes follows.
            count = -count
            self.read_int()
        # Each takes at least one byte in what Iceberg's writers make.
        self._left_elements -= count
        if self._left_elements < 0:
            raise self._ended(count)
        self._num_elements += count * width
        if self._num_elements > _MOST_ELEMENTS:
            raise ValueError(f"a row has more than {_MOST_ELEMENTS} values in arrays and maps")
        return count

    def sequence(self, width: int) -> Iterator[None]:
        """Yield once for each element to read of an array or map."""
        while count := self.elements(width):
            for _ in range(count):
                self.check()
                yield

    def _require(self, count: int) -> None:
        if not 0 <= count <= self._limit - self.tell():
            raise self._ended(count)

    def _ended(self, count: int) -> EOFError:
        return EOFError(f"{count} bytes or elements were expected at byte {self.tell()} of {self._limit}")


_MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16
_LONGEST_VARINT: Final = 10
_MAX_HEADER_BYTES: Final = 32 << 20


@contextmanager
def decoding() -> Iterator[None]:
    """Run a block that decodes bytes of a file: errors that look like one of a disk or of Python are damage, too."""
    try:
        yield
    except (OSError, SystemError, zlib.error) as cause:  # OSError is from Arrow's decompressors: no file is open here
        raise UndecodableError(f"{type(cause).__name__}: {one_line(cause)}") from cause


class AvroContainer:
    """A whole file.

    Attributes:
        schema: of its rows, in JSON.
    """

    def __init__(self, content: bytes) -> None:
        decoder = AvroDecoder(content[:_MAX_HEADER_BYTES])
        if decoder.read_fixed(len(_MAGIC)) != _MAGIC:
            raise ValueError("it does not begin as an Avro file does")
        metadata = {}
        for _ in decoder.sequence(2):
            key = decoder.read_text()
            metadata[key] = decoder.read_bytes()
        self.schema = metadata["avro.schema"].decode()
        self._codec = metadata.get("avro.codec", b"null").decode()
        self._sync = decoder.read_fixed(_SYNC_BYTES)
        self._content, self._start = content, decoder.tell()

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """Number of rows and encoded rows of each block."""
        start, end = self._start, len(self._content)
        while start < end:
            # Only the two numbers at its start. The marker after the block shows that they are right.
            # Zeros end a number that the file cuts: PyIceberg's decoder would read on.
            decoder = new_decoder(self._content[start : start + 2 * _LONGEST_VARINT] + bytes(2))
            num_rows, size_bytes = decoder.read_int(), decoder.read_int()
            offset = start + decoder.tell()
            stop = offset + size_bytes
            is_inside = num_rows >= 0 and 0 <= size_bytes <= end - offset - _SYNC_BYTES
            if not is_inside or self._content[stop : stop + _SYNC_BYTES] != self._sync:
                raise ValueError(f"the block at byte {start} does not have the size that it says")
            start = stop + _SYNC_BYTES
            if num_rows or size_bytes:
                yield num_rows, decompressed(self._content[offset:stop], self._codec)
