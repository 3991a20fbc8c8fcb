"""The codecs of Avro blocks, decompressed up to a limit: a few bytes of a file may decompress to gigabytes.

Source: https://avro.apache.org/docs/1.12.0/specification/#required-codecs
"""

import bz2
import lzma
import zlib
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import pyarrow as pa

__all__ = ["decompressed"]

_Decompressor: TypeAlias = bz2.BZ2Decompressor | lzma.LZMADecompressor

MAX_BLOCK_BYTES: Final = 128 << 20
"""The most bytes of one block, compressed or not. Writers end a block at 16 KiB to some MiB, or after one larger row.
Up to three copies of a block are held at once. The 512 MiB that a core has in addition to ``memory_bytes`` cover
them."""

_CHUNK_BYTES: Final = 1 << 20


def decompressed(content: bytes, codec: str, *, max_bytes: int = MAX_BLOCK_BYTES) -> bytes:
    """The bytes of a block.

    Args:
        content: of the block, as the file has it.
        codec: its name in the file's header.
        max_bytes: the most bytes that it may decompress to.

    Raises:
        ValueError: the codec is none of Avro's, the bytes are damaged, or there are more than ``max_bytes``.
        EOFError, OSError, zlib.error, lzma.LZMAError: the bytes are damaged.

    >>> decompressed(zlib.compress(b"rows")[2:-4], "deflate")
    b'rows'
    """
    match codec:
        case "null":
            return _within(content, max_bytes)
        case "deflate":
            return _inflated(content, max_bytes)
        case "snappy":
            return _unsnapped(content, max_bytes)
        case "zstandard":
            return _unzstd(content, max_bytes)
        case "bzip2" | "xz":
            return _of_streams(content, _DECOMPRESSORS[codec], max_bytes)
    raise ValueError(f"the codec {codec!r} is none of Avro's")


_DECOMPRESSORS: Final[Mapping[str, Callable[[], _Decompressor]]] = {
    "bzip2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(memlimit=MAX_BLOCK_BYTES),
}


def _within(content: bytes, max_bytes: int) -> bytes:
    if len(content) > max_bytes:
        raise ValueError(f"a block has more than {max_bytes} bytes, the most that icefloe reads at once")
    return content


def _inflated(content: bytes, max_bytes: int) -> bytes:
    inflater = zlib.decompressobj(wbits=-15)
    # One byte more than allowed is enough to see that there is too much.
    plain = _within(inflater.decompress(content, max_bytes + 1), max_bytes)
    if not inflater.eof:
        raise EOFError("a block ends before its compressed bytes do")
    return plain


def _unsnapped(content: bytes, max_bytes: int) -> bytes:
    """Snappy's own framing says the size, as an unsigned varint; Avro adds a checksum at the end."""
    size = 0
    for place, byte in enumerate(content[:5]):
        size |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            break
    if size > max_bytes:
        raise ValueError(f"a block has {size} bytes, more than the {max_bytes} that icefloe reads at once")
    plain: bytes = pa.Codec("snappy").decompress(content[:-4], size, asbytes=True)
    if zlib.crc32(plain).to_bytes(4, "big") != content[-4:]:
        raise ValueError("the checksum of a block does not match")
    return plain


def _unzstd(content: bytes, max_bytes: int) -> bytes:
    plain = bytearray()
    with pa.CompressedInputStream(pa.BufferReader(content), "zstd") as stream:
        while len(plain) <= max_bytes and (chunk := stream.read(_CHUNK_BYTES)):
            plain += chunk
    return _within(bytes(plain), max_bytes)


def _of_streams(content: bytes, decompressor: Callable[[], _Decompressor], max_bytes: int) -> bytes:
    """The bytes of one stream, or of several streams one after the other."""
    plain = b""
    while content:
        stream = decompressor()
        plain = _within(plain + stream.decompress(content, max_bytes + 1 - len(plain)), max_bytes)
        if not stream.eof:
            raise EOFError("a block ends before its compressed bytes do")
        content = stream.unused_data
    return plain
