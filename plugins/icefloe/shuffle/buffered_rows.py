"""Changed rows of a map task that wait in memory until they are written as blocks."""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.shuffle.block_file import BlockFile, BlockFileWriter, write_rows
from icefloe.shuffle.blocks import BlockRows
from icefloe.shuffle.divided_partitions import BatchSizes, BlockNumbers, hot_partitions
from icefloe.shuffle.reduce_ids import reduce_ids as partitions_of
from icefloe.shuffle.statistics_file import PartitionStatistics

_HASH_BYTES: Final = 16


class RowsChunk(NamedTuple):
    """Rows that came together; all of one length.

    Attributes:
        rows: in the schema of blocks.
        reduce_ids: reduce partition of each row.
        parts: part of each row, should its reduce partition be divided.
        row_hashes: hash of each row.
    """

    rows: pa.RecordBatch
    reduce_ids: NDArray[np.int32]
    parts: NDArray[np.uint8]
    row_hashes: RowHashes


class BufferedRows:
    """The rows since the last spill, in the order in which they came.

    Args:
        num_partitions: reduce partitions.
        hash_partitions: hash partitions, which are numbered on from them; 0: the rows have no hash rows.

    Attributes:
        size_bytes: bytes that the rows hold in memory.
    """

    def __init__(self, *, num_partitions: int, hash_partitions: int) -> None:
        self._num_partitions = num_partitions
        self._hash_partitions = hash_partitions
        self._chunks: list[RowsChunk] = []
        self._hash_rows: list[pa.RecordBatch] = []
        self.size_bytes = 0

    def append(self, chunk: RowsChunk, hash_rows: pa.RecordBatch | None) -> None:
        """Takes rows, and their hash rows if there are hash partitions."""
        self._chunks.append(chunk)
        self.size_bytes += chunk.rows.nbytes + _HASH_BYTES * chunk.rows.num_rows
        if hash_rows is not None:
            self._hash_rows.append(hash_rows)
            self.size_bytes += hash_rows.nbytes

    def hot_partitions(self, sizes: BatchSizes) -> tuple[int, ...]:
        """The reduce partitions that would be larger than a range, if all tasks of the batch have rows like these."""
        rows = np.zeros(self._num_partitions, np.int64)
        for chunk in self._chunks:
            rows += np.bincount(chunk.reduce_ids, minlength=self._num_partitions)
        return hot_partitions(sizes, rows, sum(chunk.rows.nbytes for chunk in self._chunks))

    def write(
        self, writer: BlockFileWriter, numbers: BlockNumbers, count: Callable[[PartitionStatistics], None]
    ) -> BlockFile:
        """Writes the rows as blocks, and their hash rows after them; the buffer is then empty.

        Args:
            writer: writes the blocks.
            numbers: numbers of the blocks.
            count: takes the statistics of the rows, chunk by chunk.
        """
        chunks, hash_rows = self._chunks, self._hash_rows
        self._chunks, self._hash_rows, self.size_bytes = [], [], 0
        if not chunks:
            return writer.finish()
        blocks = [numbers.of_rows(chunk.reduce_ids, chunk.parts) for chunk in chunks]
        # Hash partitions are never divided, so the part of a row is not looked at.
        hash_blocks = [numbers.of_rows(self._hash_ids(chunk), chunk.parts) for chunk in chunks] if hash_rows else []
        for ids_of_chunks in filter(None, (blocks, hash_blocks)):
            for chunk, ids in zip(chunks, ids_of_chunks, strict=True):
                count(_statistics(chunk, ids))
        rows = pa.concat_batches([chunk.rows for chunk in chunks])
        # Otherwise the rows would be there twice while they are written.
        del chunks, chunk
        ids = np.concatenate(blocks)
        del blocks, ids_of_chunks
        write_rows(writer, rows, ids, len(numbers))
        del rows, ids
        if hash_rows:
            write_rows(writer, pa.concat_batches(hash_rows), np.concatenate(hash_blocks), len(numbers))
        return writer.finish()

    def _hash_ids(self, chunk: RowsChunk) -> NDArray[np.int32]:
        """The hash partition of each row."""
        return self._num_partitions + partitions_of(chunk.row_hashes, self._hash_partitions)


def _statistics(chunk: RowsChunk, blocks: NDArray[np.int32]) -> PartitionStatistics:
    _, weights, ordinals = BlockRows.of(chunk.rows)
    return PartitionStatistics.of_rows(
        reduce_ids=blocks, change_ordinals=ordinals, weights=weights, row_hashes=chunk.row_hashes
    )
