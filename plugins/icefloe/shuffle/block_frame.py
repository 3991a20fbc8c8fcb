"""The LZ4 frame of a shuffle block, uncompressed piece by piece."""

from typing import BinaryIO, Final

import lz4.frame

from icefloe.errors import one_line
from icefloe.shuffle.blocks import corrupt_block, declared_bytes
from icefloe.storage.local_folders import on_local_disk

_HEAD_BYTES: Final = 64
_READ_BYTES: Final = 1 << 20


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
            return self._decompressor.decompress(data, max_length=most)
        except (RuntimeError, EOFError) as cause:
            raise corrupt_block(self._size_bytes, f"LZ4 refuses it: {one_line(cause)}") from cause
