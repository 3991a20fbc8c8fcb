"""Rows of a task on local disk, in numbered parts that are read back one by one."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.shuffle.block_file import BlockFile, BlockFileWriter, write_rows
from icefloe.shuffle.blocks import decode_block
from icefloe.storage.local_folders import KeepsLocalFiles, on_local_disk

__all__ = ["SpilledRows"]

_CANNOT_KEEP: Final = "the rows of a reduce range cannot be kept on local disk"
_LARGEST_BUFFER_BYTES: Final = 256 << 20


class SpilledRows(KeepsLocalFiles):
    """Takes rows with the number of their part, then gives the rows of a part in the order in which they came.

    Rows wait in memory up to a limit, then go to disk as a run, which has a block for each part. Use it as a context
    manager: it owns a temporary file.

    Args:
        schema: of the rows (`block_schema`).
        num_parts: number of parts.
        memory_bytes: rows that wait in memory; they are there twice while they are written.
        disk: local folder; None: the machine's temporary folder.

    Attributes:
        content_bytes: int64, uncompressed bytes of each part that are on disk.
        rows: int64, rows of each part.
    """

    def __init__(self, schema: pa.Schema, num_parts: int, *, memory_bytes: int, disk: Path | None = None) -> None:
        super().__init__()
        self._schema = schema
        self._num_parts = num_parts
        self._buffer_bytes = min(memory_bytes, _LARGEST_BUFFER_BYTES)
        self._disk = disk
        self._file: BinaryIO | None = None
        self._runs: list[tuple[int, BlockFile]] = []
        self._waiting: list[tuple[pa.RecordBatch, NDArray[np.int32]]] = []
        self._waiting_bytes = 0
        self.content_bytes = np.zeros(num_parts, np.int64)
        self.rows = np.zeros(num_parts, np.int64)

    def add(self, batch: pa.RecordBatch, parts: NDArray[np.int32]) -> None:
        """Takes rows; there is one part for each.

        Raises:
            TransientError: local disk is full or broken.
        """
        if not batch.num_rows:
            return
        self.rows += np.bincount(parts, minlength=self._num_parts)
        self._waiting.append((batch, parts))
        self._waiting_bytes += batch.nbytes
        if self._waiting_bytes > self._buffer_bytes:
            self.flush()

    def flush(self) -> None:
        """Writes the rows that wait. Afterwards ``content_bytes`` counts all rows.

        Raises:
            TransientError: local disk is full or broken.
        """
        if not self._waiting:
            return
        rows = pa.concat_batches([batch for batch, _ in self._waiting])
        parts = np.concatenate([parts for _, parts in self._waiting])
        self._waiting, self._waiting_bytes = [], 0
        with on_local_disk(_CANNOT_KEEP):
            if self._file is None:
                # It has no name, so a process that is killed leaves nothing.
                file = tempfile.TemporaryFile(dir=self._disk)  # noqa: SIM115 - the stack closes it
                self._file = cast("BinaryIO", self._owned.enter_context(file))
            start = self._file.seek(0, 2)
            writer = BlockFileWriter(self._file, self._num_parts, is_spill=True)
            write_rows(writer, rows, parts, self._num_parts)
        blocks = writer.finish()
        self._runs.append((start, blocks))
        self.content_bytes += blocks.content_bytes

    def batches(self, part: int) -> Iterator[pa.RecordBatch]:
        """The rows of a part. Several parts can be read at once, but no rows added meanwhile.

        Raises:
            TransientError: local disk is broken, or gives back other bytes.
        """
        self.flush()
        for run_start, blocks in self._runs:
            content_bytes = int(blocks.content_bytes[part])
            if content_bytes and self._file is not None:
                start, stop = blocks.offsets[part : part + 2].tolist()
                with on_local_disk(_CANNOT_KEEP):
                    self._file.seek(run_start + start)
                    data = self._file.read(stop - start)
                yield from decode_block(data, self._schema, max_bytes=content_bytes)
