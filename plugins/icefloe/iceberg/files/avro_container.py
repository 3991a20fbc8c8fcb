"""An Avro object container file: its schema, and its blocks of rows, decompressed one at a time.

Source: https://avro.apache.org/docs/1.12.0/specification/#object-container-files
"""

import bz2
import json
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Self, TypeAlias

import pyarrow as pa
from pyiceberg.avro.decoder import new_decoder
from pyiceberg.io import InputStream

from icefloe.errors import one_line
from icefloe.iceberg.unreadable import UndecodableError

__all__ = ["decoding", "decompressed"]


AvroSchema: TypeAlias = Any
"""JSON: a type by its name, a list of types for a union, or a mapping for a type that is written out."""
_Decompressor: TypeAlias = bz2.BZ2Decompressor | lzma.LZMADecompressor

MAX_BLOCK_BYTES: Final = 128 << 20
"""The most bytes of one block, compressed or not. Writers end a block at 16 KiB to some MiB, or after one larger row.
Up to three copies of a block are held at once. The 512 MiB that a core has in addition to ``memory_bytes`` cover
them."""

_CHUNK_BYTES: Final = 1 << 20


def decompressed(content: bytes, codec: str, *, max_bytes: int = MAX_BLOCK_BYTES) -> bytes:
    """The bytes of a block.

    >>> decompressed(zlib.compress(b"rows")[2:-4], "deflate")
    b'rows'
    """
    if codec not in _CODECS:
        raise ValueError(f"the codec {codec!r} is none of Avro's")
    return _CODECS[codec](content, max_bytes)


def _check_size(size_bytes: int, max_bytes: int) -> None:
    if size_bytes > max_bytes:
        raise ValueError(f"a block has more than {max_bytes} bytes, the most that icefloe reads at once")


def _within(content: bytes, max_bytes: int) -> bytes:
    _check_size(len(content), max_bytes)
    return content


def _inflated(content: bytes, max_bytes: int) -> bytes:
    inflater = zlib.decompressobj(wbits=-15)
    # One byte more than allowed is enough to see that there is too much.
    plain = _within(inflater.decompress(content, max_bytes + 1), max_bytes)
    if not inflater.eof:
        raise EOFError("a block ends before its compressed bytes do")
    return plain


def _unsnapped(content: bytes, max_bytes: int) -> bytes:
    """Snappy gives the size as an unsigned varint; Avro adds a checksum at the end."""
    size = 0
    for place, byte in enumerate(content[:5]):
        size |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            break
    _check_size(size, max_bytes)
    plain: bytes = pa.Codec("snappy").decompress(content[:-4], size, asbytes=True)
    if zlib.crc32(plain).to_bytes(4, "big") != content[-4:]:
        raise ValueError("the checksum of a block does not match")
    return plain


def _unzstd(content: bytes, max_bytes: int) -> bytes:
    # Not one buffer that grows: it is copied to grow, and again to become bytes.
    chunks, size_bytes = [], 0
    with pa.CompressedInputStream(pa.BufferReader(content), "zstd") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            chunks.append(chunk)
            size_bytes += len(chunk)
            _check_size(size_bytes, max_bytes)
    return b"".join(chunks)


def _of_streams(decompressor: Callable[[], _Decompressor], content: bytes, max_bytes: int) -> bytes:
    """One stream, or several one after the other."""
    plain = b""
    while content:
        stream = decompressor()
        plain = _within(plain + stream.decompress(content, max_bytes + 1 - len(plain)), max_bytes)
        if not stream.eof:
            raise EOFError("a block ends before its compressed bytes do")
        content = stream.unused_data
    return plain


_CODECS: Final[Mapping[str, Callable[[bytes, int], bytes]]] = {
    "null": _within,
    "deflate": _inflated,
    "snappy": _unsnapped,
    "zstandard": _unzstd,
    "bzip2": partial(_of_streams, bz2.BZ2Decompressor),
    "xz": partial(_of_streams, partial(lzma.LZMADecompressor, memlimit=MAX_BLOCK_BYTES)),
}


MAX_VALUES: Final = 1 << 16
"""The most values of one row outside of arrays and maps, counted by the schema: padding covers them all."""
_PADDING: Final = bytes(8 * MAX_VALUES)
_MOST_ELEMENTS: Final = 1 << 21
"""The most elements of arrays and maps in one row: each is an object of up to 100 bytes until its batch is done."""
_MOST_UNBACKED: Final = 1 << 20


class Unbacked:
    """Rows and elements of a file that took none of its bytes: nulls, and records without fields.

    Only a number in the file bounds them.
    """

    def __init__(self) -> None:
        self._left = _MOST_UNBACKED

    def take(self, count: int) -> None:
        self.require(count)
        self._left -= count

    def require(self, count: int) -> None:
        """ValueError if the file may not have so many more."""
        if count > self._left:
            raise ValueError(f"it promises more than {_MOST_UNBACKED} rows or elements that have no bytes")


class AvroDecoder:
    """PyIceberg's decoder, kept within its bytes, whose end it does not check.

    Padding covers the numbers of a row that begins inside; ``check`` refuses values that ended outside.
    """

    __slots__ = ("_limit", "_read", "_unbacked", "elements", "read_boolean", "read_int", "tell")

    def __init__(self, content: bytes, unbacked: Unbacked) -> None:
        decoder = new_decoder(content + _PADDING)
        self._limit = len(content)
        self._unbacked = unbacked
        self.elements = 0
        self._read, self.tell = decoder.read, decoder.tell
        self.read_boolean, self.read_int = decoder.read_boolean, decoder.read_int

    def check(self) -> None:
        """EOFError if a value ended after the last byte."""
        if self.tell() > self._limit:
            raise EOFError(f"a value ends after the last of {self._limit} bytes")

    def rows(self, count: int) -> Iterator[None]:
        """Yield once for each row to read; ValueError if the bytes cannot hold so many."""
        self._unbacked.require(count - self._limit)
        for _ in range(count):
            start, self.elements = self.tell(), 0
            yield
            if self.tell() == start:
                self._unbacked.take(1)

    @property
    def is_at_end(self) -> bool:
        return self.tell() == self._limit

    def read_float(self) -> bytes:
        """Little-endian."""
        return self._read(4)

    def read_double(self) -> bytes:
        """Little-endian; PyIceberg 0.12 would turn them into a float."""
        return self._read(8)

    def read_fixed(self, size_bytes: int) -> bytes:
        self._require(size_bytes)
        return self._read(size_bytes)

    def read_bytes(self) -> bytes:
        return self.read_fixed(self.read_int())

    def sequence(self) -> Iterator[None]:
        """Yield once for each element to read of an array or map."""
        while count := self.read_int():
            # A negative count means that the size of these elements in bytes follows.
            if count < 0:
                count = -count
                self.read_int()
            self.elements += count
            if self.elements > _MOST_ELEMENTS:
                raise ValueError(f"a row has more than {_MOST_ELEMENTS} elements in arrays and maps")
            start = self.tell()
            # More elements than bytes: the rest of them must be of no bytes, as only damage or malice writes them.
            self._unbacked.require(start + count - self._limit)
            for _ in range(count):
                self.check()
                yield
            if self.tell() - start < count:
                self._unbacked.take(count - (self.tell() - start))

    def _require(self, size_bytes: int) -> None:
        if not 0 <= size_bytes <= self._limit - self.tell():
            raise EOFError(f"{size_bytes} bytes were expected at byte {self.tell()} of {self._limit}")


_MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16
_LONGEST_VARINT: Final = 10
_HEADER_BYTES: Final = 64 << 10
_MAX_HEADER_BYTES: Final = 32 << 20
_MAX_BLOCKS: Final = 1 << 21
"""The most blocks of a file. The place of a block takes about 100 bytes, a block without rows 18 bytes of the file."""
_UNDECODABLE: Final = (
    EOFError, ArithmeticError, LookupError, ValueError, RecursionError, SystemError, zlib.error, lzma.LZMAError,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroBlock:
    offset: int
    size_bytes: int
    num_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroContainer:
    """An open file."""

    source: InputStream
    schema: AvroSchema
    codec: str
    blocks: tuple[AvroBlock, ...]
    unbacked: Unbacked

    @classmethod
    def open(cls, source: InputStream) -> Self:
        with decoding():
            metadata, start = _header(source)
            sync = _read(source, start - _SYNC_BYTES, _SYNC_BYTES)
            schema = json.loads(metadata["avro.schema"])
            codec = metadata.get("avro.codec", b"null").decode()
            blocks = tuple(_blocks(source, start, sync))
            return cls(source=source, schema=schema, codec=codec, blocks=blocks, unbacked=Unbacked())

    def content(self, block: AvroBlock) -> bytes:
        with decoding():
            if block.size_bytes > MAX_BLOCK_BYTES:
                raise ValueError(
                    f"a block has {block.size_bytes} bytes, more than the {MAX_BLOCK_BYTES} that icefloe reads"
                )
            return decompressed(_read(self.source, block.offset, block.size_bytes), self.codec)


@contextmanager
def decoding() -> Iterator[None]:
    """Run a block that decodes bytes of the file."""
    try:
        yield
    except _UNDECODABLE as cause:
        raise UndecodableError(f"{type(cause).__name__}: {one_line(cause)}") from cause
    except OSError as cause:
        if cause.errno is not None:
            raise
        raise UndecodableError(one_line(cause)) from cause


def _header(source: InputStream) -> tuple[dict[str, bytes], int]:
    """The metadata, and the offset of the first block."""
    end = source.size() if hasattr(source, "size") else source.seek(0, 2)
    # A header is read in one request of 64 KiB, and only a schema longer than that takes another.
    size = _HEADER_BYTES
    while True:
        content = _read(source, 0, min(size, end))
        try:
            return _parsed_header(content)
        except EOFError:
            if size >= min(end, _MAX_HEADER_BYTES):
                raise
            size *= 8


def _parsed_header(content: bytes) -> tuple[dict[str, bytes], int]:
    decoder = AvroDecoder(content, Unbacked())
    if decoder.read_fixed(len(_MAGIC)) != _MAGIC:
        raise ValueError("it does not begin as an Avro file does")
    metadata = {}
    for _ in decoder.sequence():
        key = decoder.read_bytes().decode()
        metadata[key] = decoder.read_bytes()
    decoder.read_fixed(_SYNC_BYTES)
    return metadata, decoder.tell()


def _blocks(source: InputStream, start: int, sync: bytes) -> Iterator[AvroBlock]:
    end = source.size() if hasattr(source, "size") else source.seek(0, 2)
    found = 0
    while start < end:
        # Only the two numbers at its start. The marker after the block shows that they are right; nothing is
        # decompressed. Zeros end a number that the file cuts: PyIceberg's decoder would read on.
        decoder = new_decoder(_read(source, start, min(2 * _LONGEST_VARINT, end - start)) + bytes(2))
        num_rows, size_bytes = decoder.read_int(), decoder.read_int()
        offset = start + decoder.tell()
        is_inside = num_rows >= 0 and 0 <= size_bytes <= end - offset - _SYNC_BYTES
        if not is_inside or _read(source, offset + size_bytes, _SYNC_BYTES) != sync:
            raise ValueError(f"the block at byte {start} does not have the size that it says")
        start = offset + size_bytes + _SYNC_BYTES
        if num_rows or size_bytes:
            found += 1
            if found > _MAX_BLOCKS:
                raise ValueError(f"it has more than {_MAX_BLOCKS} blocks")
            yield AvroBlock(offset=offset, size_bytes=size_bytes, num_rows=num_rows)


def _read(source: InputStream, offset: int, size_bytes: int) -> bytes:
    source.seek(offset)
    content: bytes = source.read(size_bytes)
    if len(content) != size_bytes:
        raise EOFError(f"{size_bytes} bytes were expected at byte {offset}, found {len(content)}")
    return content
