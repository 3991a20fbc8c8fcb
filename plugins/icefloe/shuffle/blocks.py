"""Shuffle blocks: a map task's rows for one reduce partition, one LZ4 frame of Arrow messages.

The byte format is in docs/developers/formats.md, section "Data file". Readers raise `ValueError` for damaged bytes,
whose place only their callers know.

Rows go by identity, so equal rows of two identities do not meet; their hash rows do, in a hash partition. A map
output's hash partitions follow its reduce partitions:

    partition     0   1   2   3   4   5          6   7
                  rows, by identity hash         hash rows, by row hash
"""

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Final, NamedTuple, Self

import lz4.frame
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.changes.columns import ChangeColumns
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.errors import TerminalError, lack_of_memory_named, one_line
from icefloe.storage.local_folders import on_local_disk

__all__ = ["BlockRows", "HashRows"]

_FRAME_START: Final = bytes.fromhex("04224d18 4c 40")
"""LZ4's magic, then the flags every block has: version 1, linked blocks of 64 KiB, content size, content checksum."""
_PIECE_BYTES: Final = 4 << 20
_SMALL_BLOCK_BYTES: Final = 16 << 10
_FAST: Final = 0
_DENSE: Final = 3
"""A few rows compress by a fifth better at LZ4's first dense level, in 25 microseconds more a block."""
_MESSAGE_BYTES: Final = 16 << 20
_MAX_MESSAGE_BYTES: Final = (1 << 31) - 1


def reduce_ids(identity_hashes: RowHashes, num_partitions: int) -> NDArray[np.int32]:
    """The identity hash (row hash without an identity) modulo the number of partitions."""
    return identity_hashes.modulo(num_partitions).astype(np.int32, copy=False)


def order_by_reduce_id(ids: NDArray[np.int32], num_partitions: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row positions by reduce partition, stable, and the rows of each partition.

    >>> order = order_by_reduce_id(np.array([2, 0, 2, 0], np.int32), 3)
    >>> [part.tolist() for part in order]
    [[1, 3, 0, 2], [2, 0, 2]]
    """
    if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < num_partitions:
        raise ValueError(f"reduce ids lie in [0, {num_partitions}), found {ids.min()} to {ids.max()}")
    counts = np.bincount(ids, minlength=num_partitions)
    # NumPy's stable sort is a radix sort for 16 bits and a merge sort, five times slower, above.
    sortable = ids.astype(np.uint16) if num_partitions <= 1 << 16 else ids
    return np.argsort(sortable, kind="stable"), counts


class BlockRows(NamedTuple):
    """The rows of blocks, apart from their last two columns."""

    rows: pa.Table
    weights: NDArray[np.int64]
    change_ordinals: NDArray[np.int32]

    @staticmethod
    def schema(table_schema: pa.Schema) -> pa.Schema:
        """The schema of blocks: the table's columns, then weight and change ordinal."""
        ours = [
            pa.field(ChangeColumns.WEIGHT, pa.int64(), nullable=False),
            pa.field(ChangeColumns.ORDINAL, pa.int32(), nullable=False),
        ]
        return pa.schema([*table_schema, *ours])

    @classmethod
    def of(cls, piece: pa.Table | pa.RecordBatch) -> Self:
        """The rows of a table or a batch in the schema of blocks."""
        weights, ordinals = (piece.column(piece.num_columns - place).to_numpy() for place in (2, 1))
        return cls(piece.select(range(piece.num_columns - 2)), weights, ordinals)


def split_batch(batch: pa.RecordBatch, *, message_bytes: int = _MESSAGE_BYTES) -> Iterator[pa.RecordBatch]:
    """Slices whose messages take about ``message_bytes`` at most; none if empty."""
    size_bytes = pa.ipc.get_record_batch_size(batch)
    if size_bytes > message_bytes and batch.num_rows > 1:
        middle = batch.num_rows // 2
        yield from split_batch(batch.slice(0, middle), message_bytes=message_bytes)
        yield from split_batch(batch.slice(middle), message_bytes=message_bytes)
    elif size_bytes > _MAX_MESSAGE_BYTES:
        raise TerminalError(f"a row of {size_bytes} bytes is too large to be shuffled; the limit is 2 GiB")
    elif batch.num_rows:
        yield batch


def compress_block(messages: Iterable[Any], *, content_bytes: int, is_spill: bool = False) -> Iterator[bytes]:
    """One LZ4 frame of ``content_bytes``, piece by piece."""
    level = _FAST if is_spill or content_bytes > _SMALL_BLOCK_BYTES else _DENSE
    with lack_of_memory_named():
        compressor = lz4.frame.LZ4FrameCompressor(compression_level=level, content_checksum=True)
        yield compressor.begin(source_size=content_bytes)
        for message in messages:
            view = memoryview(message)
            for start in range(0, len(view), _PIECE_BYTES):
                yield compressor.compress(view[start : start + _PIECE_BYTES])
        yield compressor.flush()


def decode_block(data: bytes | memoryview, schema: pa.Schema, *, max_bytes: int) -> list[pa.RecordBatch]:
    """The record batches of one block; ValueError if damaged, over ``max_bytes`` uncompressed, or of another schema."""
    # Nothing larger is ever allocated.
    content = decompress_block(data, max_bytes=max_bytes)
    try:
        return list(record_batches(pa.BufferReader(content), len(content), schema))
    except MemoryError as cause:
        # Messages are read in place. If there is room for all of them once more, a damaged one asked for too much;
        # otherwise this raises, because the process has no memory left.
        bytearray(len(content))
        raise _unfit(cause) from cause


def record_batches(reader: pa.NativeFile, content_bytes: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    try:
        while reader.tell() < content_bytes:
            message = pa.ipc.read_message(reader)
            if message.type != "record batch":
                raise ValueError(f"it holds an Arrow message of type {message.type!r}")
            # Arrow trusts the offsets in a message. A wrong one would make a later kernel read outside of the buffer.
            batch = pa.ipc.read_record_batch(message, schema)
            batch.validate(full=True)
            yield batch
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, EOFError) as cause:
        raise _unfit(cause) from cause


def decompress_block(data: bytes | memoryview, *, max_bytes: int) -> bytes:
    declared = declared_bytes(data, max_bytes=max_bytes)
    try:
        # Not lz4.frame.decompress: it ignores bytes after the frame, and a second frame.
        with lack_of_memory_named():
            decompressor = lz4.frame.LZ4FrameDecompressor()
            content = decompressor.decompress(data, max_length=declared)
    except RuntimeError as cause:
        raise ValueError(f"LZ4 refuses it: {one_line(cause)}") from cause
    if len(content) != declared or not decompressor.eof or decompressor.unused_data:
        raise ValueError(f"{len(content)} of {declared} bytes came out, or bytes follow the frame")
    return content


def declared_bytes(head: bytes | memoryview, *, max_bytes: int) -> int:
    # Frames of other kinds (no checksum, a dictionary, LZ4's legacy format) would be decoded, but no map task writes
    # them.
    if bytes(head[: len(_FRAME_START)]) != _FRAME_START:
        raise ValueError("it does not start with the LZ4 frame header of a block")
    try:
        with lack_of_memory_named():
            declared = int(lz4.frame.get_frame_info(head)["content_size"])
    except RuntimeError as cause:
        raise ValueError(f"LZ4 refuses it: {one_line(cause)}") from cause
    if not 0 < declared <= max_bytes:
        raise ValueError(f"its header declares {declared} bytes, expected 1 to {max_bytes}")
    return declared


def _unfit(cause: Exception) -> ValueError:
    return ValueError(f"its Arrow messages do not fit the schema: {one_line(cause)}")


_HEAD_BYTES: Final = 64
_READ_BYTES: Final = 1 << 20


def stream_block(source: BinaryIO, schema: pa.Schema, *, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """One batch at a time: the block may be larger than the task's memory."""
    frame = FrameReader(source, max_bytes=max_bytes)
    yield from record_batches(pa.PythonFile(frame, mode="r"), frame.content_bytes, schema)
    frame.require_end()


class FrameReader:
    """One block uncompressed, as a file that Arrow reads; little of it is in memory at once."""

    closed = False

    def __init__(self, source: BinaryIO, *, max_bytes: int) -> None:
        self._source = source
        self._waiting = source.read(_HEAD_BYTES)
        self.content_bytes = declared_bytes(self._waiting, max_bytes=max_bytes)
        self._position = 0
        with lack_of_memory_named():
            self._decompressor = lz4.frame.LZ4FrameDecompressor()

    def read(self, size: int) -> bytes:
        """Fewer bytes only at the end; never more than the header declares."""
        wanted = min(size, self.content_bytes - self._position)
        found: list[bytes] = []
        while wanted and (piece := self._piece(wanted)):
            found.append(piece)
            wanted -= len(piece)
            self._position += len(piece)
        return b"".join(found)

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        """Nothing: the source is its owner's."""

    def require_end(self) -> None:
        decompressor = self._decompressor
        if self._piece(1) or not decompressor.eof or decompressor.unused_data or self._source.read(1):
            raise ValueError(f"{self._position} of {self.content_bytes} bytes came out, or bytes follow the frame")

    def _piece(self, most: int) -> bytes:
        """Some bytes; none only at the end of the frame, or of the source."""
        while not self._decompressor.eof:
            data = b""
            if self._decompressor.needs_input:
                with on_local_disk("a shuffle block cannot be read back"):
                    data, self._waiting = self._waiting or self._source.read(_READ_BYTES), b""
                if not data:
                    break
            try:
                with lack_of_memory_named():
                    piece: bytes = self._decompressor.decompress(data, max_length=most)
            except (RuntimeError, EOFError) as cause:
                raise ValueError(f"LZ4 refuses it: {one_line(cause)}") from cause
            if piece:
                return piece
        return b""


_HASH_ROWS: Final = BlockRows.schema(
    pa.schema([pa.field(name, RowHashes.COLUMN_TYPE, nullable=False) for name in ("_row", "_identity")])
)


class HashRows(NamedTuple):
    """Hash rows: the hashes of rows and identities, with step and weight; of one length."""

    row_hashes: RowHashes
    identity_hashes: RowHashes
    change_ordinals: NDArray[np.int32]
    weights: NDArray[np.int64]

    @classmethod
    def of(cls, batch: pa.RecordBatch | pa.Table) -> Self:
        """The hash rows in a batch or a table."""
        hashes, weights, ordinals = BlockRows.of(batch)
        row_column, identity_column = hashes.columns
        return cls(RowHashes.of_column(row_column), RowHashes.of_column(identity_column), ordinals, weights)

    def take(self, positions: NDArray[np.int64]) -> Self:
        """The hash rows at some positions."""
        return type(self)(
            self.row_hashes.take(positions),
            self.identity_hashes.take(positions),
            self.change_ordinals[positions],
            self.weights[positions],
        )

    @staticmethod
    def batches_in(block: bytes, *, max_bytes: int) -> list[pa.RecordBatch]:
        """The hash rows in a block; see `decode_block`."""
        return decode_block(block, _HASH_ROWS, max_bytes=max_bytes)

    @staticmethod
    def schema() -> pa.Schema:
        """The schema of hash rows in blocks."""
        return _HASH_ROWS

    @property
    def batch(self) -> pa.RecordBatch:
        """The hash rows as a batch of the schema."""
        ours = [pa.array(self.weights, pa.int64()), pa.array(self.change_ordinals, pa.int32())]
        columns = [self.row_hashes.to_column(), self.identity_hashes.to_column(), *ours]
        return pa.RecordBatch.from_arrays(columns, schema=_HASH_ROWS)
