"""An Avro object container file: its schema, and its blocks of encoded rows, decompressed one at a time.

Source: https://avro.apache.org/docs/1.12.0/specification/#object-container-files
"""

import json
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Self

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.io import InputStream

from icefloe.errors import one_line
from icefloe.iceberg.files.avro_codecs import MAX_BLOCK_BYTES, decompressed
from icefloe.iceberg.files.avro_decoder import AvroDecoder, Unbacked
from icefloe.iceberg.files.avro_types import AvroSchema
from icefloe.iceberg.unreadable import UndecodableError

__all__ = ["decoding"]

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
    """Place of a block's encoded rows in the file."""

    offset: int
    size_bytes: int
    num_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroContainer:
    """An open file.

    Attributes:
        source: the file.
        schema: as JSON.
        codec: compression of the blocks.
        blocks: all of them, in order.
        unbacked: counts the rows and elements of the file that take no bytes.
    """

    source: InputStream
    schema: AvroSchema
    codec: str
    blocks: tuple[AvroBlock, ...]
    unbacked: Unbacked

    @classmethod
    def open(cls, source: InputStream) -> Self:
        """Read the header, and the place of each block.

        Args:
            source: an open file that answers many small requests fast.
        """
        with decoding():
            metadata, start = _header(source)
            sync = _read(source, start - _SYNC_BYTES, _SYNC_BYTES)
            schema = json.loads(metadata["avro.schema"])
            codec = metadata.get("avro.codec", b"null").decode()
            blocks = tuple(_blocks(source, start, sync))
            return cls(source=source, schema=schema, codec=codec, blocks=blocks, unbacked=Unbacked())

    def content(self, block: AvroBlock) -> bytes:
        """The encoded rows of a block."""
        with decoding():
            if block.size_bytes > MAX_BLOCK_BYTES:
                raise ValueError(
                    f"a block has {block.size_bytes} bytes, more than the {MAX_BLOCK_BYTES} that icefloe reads"
                )
            return decompressed(_read(self.source, block.offset, block.size_bytes), self.codec)


@contextmanager
def decoding() -> Iterator[None]:
    """Run a block that decodes bytes of the file.

    Raises:
        UndecodableError: the bytes are not valid Avro.
    """
    try:
        yield
    except _UNDECODABLE as cause:
        raise UndecodableError(f"{type(cause).__name__}: {one_line(cause)}") from cause
    except OSError as cause:
        if cause.errno is not None:
            raise
        raise UndecodableError(one_line(cause)) from cause


def _header(source: InputStream) -> tuple[dict[str, bytes], int]:
    """The metadata, and the offset of the first block; a long schema makes a long header."""
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
