"""Files of shuffle blocks, one after another, as they are being written.

A process may have only some hundred files open, so one local file holds many spilled runs.
"""

import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import BinaryIO, Final, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.errors import TransientError
from icefloe.shuffle.blocks import compress_block, decompress_block, order_by_reduce_id, record_batches, split_batch
from icefloe.storage.local_folders import local_folders, on_local_disk, scratch_file

__all__ = ["SpilledRows"]

_ROWS_AT_ONCE: Final = 1 << 16
_CANNOT_KEEP: Final = "spilled rows cannot be kept on local disk"
_LARGEST_BUFFER_BYTES: Final = 1 << 30
"""Some of Arrow's types take 32-bit offsets: rows that wait must fit into one batch."""
_FEW_ROWS: Final = 1 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockFile:
    """Positions and checksums of the blocks in a written file."""

    offsets: NDArray[np.int64]  # ``num_blocks + 1``; block ``i`` is bytes ``offsets[i]`` to ``offsets[i + 1]``
    content_bytes: NDArray[np.int64]
    block_crc32: NDArray[np.uint32]  # of each block as it is in the file; 0 if it is empty
    crc32: int

    @property
    def size_bytes(self) -> int:
        return int(self.offsets[-1])


class BlockFileWriter:
    """Appends blocks in ascending order of their reduce ids."""

    def __init__(self, file: BinaryIO, num_blocks: int, *, is_spill: bool = False) -> None:
        self._file = file
        self._is_spill = is_spill
        self._lengths = np.zeros(num_blocks, np.int64)
        self._content_bytes = np.zeros(num_blocks, np.int64)
        self._block_crc32 = np.zeros(num_blocks, np.uint32)
        self._crc32 = 0

    def append(self, block_id: int, messages: Iterable[object], *, content_bytes: int) -> None:
        """The messages are together ``content_bytes`` long, more than 0."""
        block_crc32 = 0
        # The checksum is taken of the compressed bytes, so that a reader proves them before it lets LZ4 at them.
        for piece in compress_block(messages, content_bytes=content_bytes, is_spill=self._is_spill):
            self._file.write(piece)
            self._lengths[block_id] += len(piece)
            block_crc32 = zlib.crc32(piece, block_crc32)
            self._crc32 = zlib.crc32(piece, self._crc32)
        self._content_bytes[block_id] = content_bytes
        self._block_crc32[block_id] = block_crc32

    def finish(self) -> BlockFile:
        return BlockFile(
            offsets=np.concatenate([[0], np.cumsum(self._lengths)]),
            content_bytes=self._content_bytes,
            block_crc32=self._block_crc32,
            crc32=self._crc32,
        )


def write_rows(
    writer: BlockFileWriter, batch: pa.RecordBatch, ids: NDArray[np.int32], num_blocks: int, *, first_block: int = 0
) -> None:
    """Orders rows by the ids of their blocks; never holds them twice as a whole."""
    order, counts = order_by_reduce_id(ids, num_blocks)
    stops = np.cumsum(counts)
    filled = np.flatnonzero(counts)
    # A take for each block would be thousands of small ones, one take for all would hold every row twice. So:
    #   rows of each block       40,000   40,000   10,000   70,000
    #   takes                    40,000   50,000            70,000
    for window in _windows(filled, counts):
        first, last = int(stops[window[0]] - counts[window[0]]), int(stops[window[-1]])
        rows = batch.take(pa.array(order[first:last]))
        for block_id in window:
            start = int(stops[block_id] - counts[block_id]) - first
            pieces = list(split_batch(_compact(rows.slice(start, int(counts[block_id])))))
            content_bytes = sum(pa.ipc.get_record_batch_size(piece) for piece in pieces)
            writer.append(
                first_block + int(block_id), (piece.serialize() for piece in pieces), content_bytes=content_bytes
            )


def _compact(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Arrow pads a slice's strings to 64 bytes with its neighbours' strings, a fifth of a block."""
    return pa.concat_batches([rows, rows.slice(0, 0)]) if rows.num_rows <= _FEW_ROWS else rows


def _windows(filled: NDArray[np.int64], counts: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """About `_ROWS_AT_ONCE` rows together, at least one block."""
    if len(filled):
        number = np.cumsum(counts[filled]) // _ROWS_AT_ONCE
        yield from np.split(filled, np.flatnonzero(np.diff(number)) + 1)


class SpilledRows(ExitStack):
    """Takes rows with the number of their part, then gives a part's rows in the order they came, or all as blocks.

    Rows wait in memory, then go to disk as a run with a block for each part, one run after another in a file of each
    disk in turn. The files have no names, so a process that is killed leaves nothing. A context manager: it owns them.

    Args:
        memory_bytes: of waiting rows; they are there twice while they are written.
    """

    def __init__(self, schema: pa.Schema, num_parts: int, *, memory_bytes: int) -> None:
        super().__init__()
        self._schema = schema
        self._num_parts = num_parts
        self._buffer_bytes = min(memory_bytes, _LARGEST_BUFFER_BYTES)
        self._folders = local_folders()
        self._files: list[BinaryIO] = []
        self._runs: list[tuple[BinaryIO, int, BlockFile]] = []
        self._waiting: list[tuple[pa.RecordBatch, NDArray[np.int32]]] = []
        self._waiting_bytes = 0
        self.content_bytes = np.zeros(num_parts, np.int64)
        self.rows = np.zeros(num_parts, np.int64)

    @property
    def is_on_disk(self) -> bool:
        """True once rows went there."""
        return bool(self._runs)

    def add(self, batch: pa.RecordBatch, parts: NDArray[np.int32]) -> None:
        """Takes rows and the part of each."""
        if not batch.num_rows:
            return
        self.rows += np.bincount(parts, minlength=self._num_parts)
        self._waiting.append((batch, parts))
        self._waiting_bytes += batch.nbytes
        if self._waiting_bytes > self._buffer_bytes:
            self.flush()

    def flush(self) -> None:
        """Writes the rows that wait. Afterwards ``content_bytes`` counts all rows."""
        if not self._waiting:
            return
        rows, parts = self._taken()
        with on_local_disk(_CANNOT_KEEP):
            if len(self._files) < len(self._folders):
                file = tempfile.TemporaryFile(dir=self._folders[len(self._files)])  # noqa: SIM115 - the stack closes it
                self._files.append(self.enter_context(scratch_file(cast("BinaryIO", file))))
            run_file = self._files[len(self._runs) % len(self._files)]
            start = run_file.seek(0, 2)
            writer = BlockFileWriter(run_file, self._num_parts, is_spill=True)
            write_rows(writer, rows, parts, self._num_parts)
            run_file.flush()
        blocks = writer.finish()
        self._runs.append((run_file, start, blocks))
        self.content_bytes += blocks.content_bytes

    def batches(self, part: int) -> Iterator[pa.RecordBatch]:
        """The rows of a part. Several parts can be read at once, but no rows added meanwhile."""
        self.flush()
        for content in self._contents(part):
            yield from record_batches(pa.BufferReader(content), len(content), self._schema)

    def write_to(self, writer: BlockFileWriter, first_block: int) -> None:
        """Appends a block for each part that has rows; of those on disk it holds one run's block at a time."""
        #   run 1    |0 0|2|          by part
        #   run 2    |0|1 1|
        #   merged   |0 0 0|1 1|2|
        if self._waiting and not self._runs:
            write_rows(writer, *self._taken(), self._num_parts, first_block=first_block)
            return
        self.flush()
        for part in np.flatnonzero(self.content_bytes).tolist():
            # The content of a block is messages one after another, without a schema or an end. So contents of runs, end
            # to end, are the content of the merged block, and no row is decoded.
            writer.append(first_block + part, self._contents(part), content_bytes=int(self.content_bytes[part]))

    def written_to(self, file: BinaryIO) -> BlockFile:
        """Appends a block for each part to a file."""
        writer = BlockFileWriter(file, self._num_parts)
        self.write_to(writer, 0)
        return writer.finish()

    def _taken(self) -> tuple[pa.RecordBatch, NDArray[np.int32]]:
        """The rows that wait, which are then forgotten."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        return pa.concat_batches([batch for batch, _ in waiting]), np.concatenate([parts for _, parts in waiting])

    def _contents(self, part: int) -> Iterator[bytes]:
        """The messages of a part, uncompressed, run by run."""
        for file, start, blocks in self._runs:
            content_bytes = int(blocks.content_bytes[part])
            if content_bytes:
                first, stop = blocks.offsets[part : part + 2].tolist()
                try:
                    with on_local_disk(_CANNOT_KEEP):
                        file.seek(start + first)
                        data = decompress_block(file.read(stop - first), max_bytes=content_bytes)
                except ValueError as cause:
                    raise TransientError(f"{_CANNOT_KEEP}: {cause}; check the disk, and run again") from cause
                yield data
