"""A shuffle block that may be larger than memory: its frame is uncompressed and its rows are read piece by piece."""

from collections.abc import Iterator
from typing import BinaryIO, Final

import lz4.frame
import pyarrow as pa

from icefloe.errors import lack_of_memory_named, one_line
from icefloe.shuffle.blocks import corrupt_block, declared_bytes, record_batches
from icefloe.storage.local_folders import on_local_disk

_HEAD_BYTES: Final = 64
_READ_BYTES: Final = 1 << 20


def stream_block(source: BinaryIO, schema: pa.Schema, *, size_bytes: int, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """The record batches of one block, one at a time: the block may be larger than the memory of the task.

    Args:
        source: the bytes of exactly one block, at its start.
        schema: schema of the rows, from `block_schema`.
        size_bytes: size of the block.
        max_bytes: the most the block may hold uncompressed.

    Raises:
        CorruptBlockError: as `decode_block`, but perhaps only after some batches.
        MemoryError: the process has no memory for a message.
    """
    frame = FrameReader(source, size_bytes=size_bytes, max_bytes=max_bytes)
    yield from record_batches(pa.PythonFile(frame, mode="r"), frame.content_bytes, schema, size_bytes=size_bytes)
    frame.require_end()


class FrameReader:
    """The uncompressed bytes of one block, as a file that Arrow reads. Little of the block is in memory at once.

    Args:
        source: the bytes of exactly one block, at its start.
        size_bytes: size of the block.
        max_bytes: the most the block may hold uncompressed.

    Attributes:
        content_bytes: size of the block uncompressed.

    Raises:
        CorruptBlockError: the header is damaged or declares more.
    """

    closed = False

    def __init__(self, source: BinaryIO, *, size_bytes: int, max_bytes: int) -> None:
        self._source = source
        self._size_bytes = size_bytes
        self._waiting = source.read(_HEAD_BYTES)
        self.content_bytes = declared_bytes(self._waiting, size_bytes=size_bytes, max_bytes=max_bytes)
        self._position = 0
        with lack_of_memory_named():
            self._decompressor = lz4.frame.LZ4FrameDecompressor()

    def read(self, size: int) -> bytes:
        """The next bytes, fewer only at the end of the frame; never more than its header declares."""
        wanted = min(size, self.content_bytes - self._position)
        found: list[bytes] = []
        while wanted:
            piece = self._piece(wanted)
            if not piece and self._is_over:
                break
            found.append(piece)
            wanted -= len(piece)
            self._position += len(piece)
        return b"".join(found)

    def tell(self) -> int:
        """Bytes that were read."""
        return self._position

    def close(self) -> None:
        """Nothing: the source is its owner's."""

    def require_end(self) -> None:
        """Checks that the frame ends here, and the block with it.

        Raises:
            CorruptBlockError: it does not; the checksum of the content is wrong, or bytes follow.
        """
        surplus = b""
        while not self._decompressor.eof and not surplus and not self._is_over:
            surplus = self._piece(1)
        if surplus or not self._decompressor.eof or self._decompressor.unused_data or self._source.read(1):
            raise corrupt_block(
                self._size_bytes, f"{self._position} of {self.content_bytes} bytes came out, or bytes follow the frame"
            )

    @property
    def _is_over(self) -> bool:
        return self._decompressor.eof or (self._decompressor.needs_input and not self._next())

    def _next(self) -> bytes:
        if not self._waiting:
            with on_local_disk("a shuffle block cannot be read back"):
                self._waiting = self._source.read(_READ_BYTES)
        return self._waiting

    def _piece(self, most: int) -> bytes:
        data = b""
        if self._decompressor.needs_input:
            data, self._waiting = self._next(), b""
        try:
            with lack_of_memory_named():
                return self._decompressor.decompress(data, max_length=most)
        except (RuntimeError, EOFError) as cause:
            raise corrupt_block(self._size_bytes, f"LZ4 refuses it: {one_line(cause)}") from cause
