"""Map outputs: one map task's changed rows, partitioned, as files that a commit record names.

Rows wait in memory, then go to local disk as runs of blocks, merged partition by partition at the end (the sort-based
shuffle of Spark). The commit record is written last.
"""

import io
import uuid
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.node.machine import BatchPlace
from icefloe.shuffle.block_file import BlockFile, BlockFileWriter, SpilledRuns, write_rows
from icefloe.shuffle.blocks import BlockRows, HashRows, block_schema
from icefloe.shuffle.coalesce import BatchSizes, BlockNumbers, hot_partitions, part_ids
from icefloe.shuffle.coalesce import reduce_ids as partitions_of
from icefloe.shuffle.committed_output import MapOutputLog, MapOutputRecord, StoredFile, schema_fingerprint
from icefloe.shuffle.index_file import GatheredStatistics, PartitionStatistics, encode_index, encode_statistics
from icefloe.storage.local_folders import KeepsLocalFiles, on_local_disk, task_folder
from icefloe.storage.store import Store

__all__ = ["MapOutputWriter", "MapTaskCounts", "new_attempt"]

_HASH_BYTES: Final = 16


class RowsChunk(NamedTuple):
    """Rows that came together; ``parts`` counts if a reduce partition is divided."""

    rows: pa.RecordBatch
    reduce_ids: NDArray[np.int32]
    parts: NDArray[np.uint8]
    row_hashes: RowHashes


class BufferedRows:
    """The rows since the last spill, in order; 0 hash partitions: no hash rows."""

    def __init__(self, *, num_partitions: int, hash_partitions: int) -> None:
        self._num_partitions = num_partitions
        self._hash_partitions = hash_partitions
        self._chunks: list[RowsChunk] = []
        self._hash_rows: list[pa.RecordBatch] = []
        self.size_bytes = 0

    def append(self, chunk: RowsChunk, hash_rows: pa.RecordBatch | None) -> None:
        self._chunks.append(chunk)
        self.size_bytes += chunk.rows.nbytes + _HASH_BYTES * chunk.rows.num_rows
        if hash_rows is not None:
            self._hash_rows.append(hash_rows)
            self.size_bytes += hash_rows.nbytes

    def hot_partitions(self, sizes: BatchSizes) -> tuple[int, ...]:
        """Larger than a range if all tasks of the batch have rows like these."""
        rows = np.zeros(self._num_partitions, np.int64)
        for chunk in self._chunks:
            rows += np.bincount(chunk.reduce_ids, minlength=self._num_partitions)
        return hot_partitions(sizes, rows, sum(chunk.rows.nbytes for chunk in self._chunks))

    def write(
        self, writer: BlockFileWriter, numbers: BlockNumbers, count: Callable[[PartitionStatistics], None]
    ) -> None:
        """Writes the rows as blocks, then their hash rows, and empties the buffer."""
        chunks, hash_rows = self._chunks, self._hash_rows
        self._chunks, self._hash_rows, self.size_bytes = [], [], 0
        if not chunks:
            return
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

    def _hash_ids(self, chunk: RowsChunk) -> NDArray[np.int32]:
        return self._num_partitions + partitions_of(chunk.row_hashes, self._hash_partitions)


def _statistics(chunk: RowsChunk, blocks: NDArray[np.int32]) -> PartitionStatistics:
    _, weights, ordinals = BlockRows.of(chunk.rows)
    return PartitionStatistics.of_rows(
        reduce_ids=blocks, change_ordinals=ordinals, weights=weights, row_hashes=chunk.row_hashes
    )


_CANNOT_KEEP: Final = "the spill files of a map task cannot be written"
_LARGEST_BUFFER_BYTES: Final = 1 << 30
"""Arrow's strings take 32-bit offsets: what is buffered must fit into one batch."""
_JOINED_BYTES: Final = 1 << 20
"""Blocks up to here are in one file with their index: one request writes both, and coalesce reads both by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapTaskCounts:
    """The figures of a map task's reading, which are in its commit record."""

    removed_rows_read: int = 0
    added_rows_read: int = 0
    carried_over_rows: int = 0
    bytes_read: int = 0
    bytes_decoded: int = 0
    seconds: float = 0.0


def new_attempt() -> str:
    """A name that no other attempt has, on any machine."""
    return uuid.uuid4().hex


class MapOutputWriter(KeepsLocalFiles):
    """Takes a map task's changed rows chunk by chunk and commits them as its output.

    Use it as a context manager: it owns temporary files.

    Args:
        generation: from `MapOutputLog.current`.
        memory_bytes: of the writer; rows past a third of it are spilled.
        place: of the data file on this machine; None, or if it is full: the store.
        spill_folders: used in turn; None is the machine's temporary folder.
        hash_partitions: 0: no hash rows are kept.
        sizes: hot reduce partitions among the rows before the first spill are divided. None: none is.
    """

    def __init__(
        self,
        store: Store,
        *,
        map_id: int,
        generation: int,
        attempt: str,
        schema: pa.Schema,
        num_partitions: int,
        memory_bytes: int,
        place: BatchPlace | None = None,
        spill_folders: Sequence[Path | None] = (None,),
        hash_partitions: int = 0,
        sizes: BatchSizes | None = None,
    ) -> None:
        super().__init__()
        self._store = store
        self._map_id = map_id
        self._generation = generation
        self._attempt = attempt
        self._schema = block_schema(schema)
        self._num_partitions = num_partitions
        self._hash_partitions = hash_partitions
        self._sizes = sizes
        self._numbers: BlockNumbers | None = None
        self._place = place
        # A third, because rows are there twice while the buffered batches become one, and then once more as compressed
        # blocks or in the order of their partitions.
        self._buffer_bytes = min(memory_bytes // 3, _LARGEST_BUFFER_BYTES)
        self._spill_folders = spill_folders
        self._runs = self._owned.enter_context(SpilledRuns(spill_folders))
        self._statistics = GatheredStatistics()
        self._buffer = BufferedRows(num_partitions=num_partitions, hash_partitions=hash_partitions)

    def write(
        self,
        batch: pa.RecordBatch,
        *,
        reduce_ids: NDArray[np.int32],
        change_ordinals: NDArray[np.int32],
        weights: NDArray[np.int64],
        row_hashes: RowHashes,
        identity_hashes: RowHashes | None = None,
    ) -> None:
        """Takes rows; all arguments have one length, and the batch has the table's columns.

        Args:
            identity_hashes: None only if there are neither ``sizes`` nor hash partitions.
        """
        parts = np.zeros(len(reduce_ids), np.uint8) if identity_hashes is None else part_ids(identity_hashes)
        if not batch.num_rows:
            return
        ours = [pa.array(weights, pa.int64()), pa.array(change_ordinals, pa.int32())]
        rows = pa.RecordBatch.from_arrays([*batch.columns, *ours], schema=self._schema)
        if self._buffer.size_bytes and self._buffer.size_bytes + rows.nbytes > self._buffer_bytes:
            self._spill()
        hash_rows = None
        if self._hash_partitions and identity_hashes is not None:
            hash_rows = HashRows(row_hashes, identity_hashes, change_ordinals, weights).batch
        self._buffer.append(RowsChunk(rows, reduce_ids, parts, row_hashes), hash_rows)

    def commit(self, counts: MapTaskCounts) -> MapOutputRecord:
        """Writes the files, then the commit record; returns the record that counts, of whichever attempt."""
        stem = f"{self._map_id}.{self._generation}.{self._attempt}"
        numbers = self._block_numbers()
        block_file, blocks = self._block_file()
        statistics = self._statistics.total()
        encoded = encode_index(block_file.offsets) + encode_statistics(statistics, block_file.block_crc32)
        data, index = self._put(stem, block_file, blocks, encoded)
        ordinals = statistics.sums(0, len(numbers) - self._hash_partitions)
        record = MapOutputRecord(
            map_id=self._map_id,
            generation=self._generation,
            attempt=self._attempt,
            data=data,
            index=index,
            num_partitions=self._num_partitions,
            divided=numbers.divided,
            hash_partitions=self._hash_partitions,
            schema_fingerprint=schema_fingerprint(self._schema),
            largest_block_bytes=int(block_file.content_bytes.max(initial=0)),
            rows=sum(sums.rows for sums in ordinals),
            ordinals=ordinals,
            **asdict(counts),
        )
        winner = MapOutputLog(self._store).commit(record)
        # Another attempt was faster. The names of our files hold our attempt, so nothing refers to them.
        if winner.attempt != self._attempt:
            self._store.delete(f"{stem}.{name}" for name in ("data", "index"))
            if self._place is not None:
                self._place.delete(f"{stem}.data")
        return winner

    def _block_numbers(self) -> BlockNumbers:
        """The rows before the first spill decide."""
        if self._numbers is None:
            divided = () if self._sizes is None else self._buffer.hot_partitions(self._sizes)
            partitions = self._num_partitions + self._hash_partitions
            self._numbers = BlockNumbers(num_partitions=partitions, divided=divided)
        return self._numbers

    def _block_file(self) -> tuple[BlockFile, bytes | Path]:
        """All blocks, and their bytes or local file."""
        numbers = self._block_numbers()
        if not len(self._runs):
            memory = io.BytesIO()
            writer = BlockFileWriter(memory, len(numbers))
            self._buffer.write(writer, numbers, self._statistics.add)
            return writer.finish(), memory.getvalue()
        self._spill()
        with on_local_disk(_CANNOT_KEEP):
            path = self._owned.enter_context(task_folder("spill", self._spill_folders[0])) / "output.blocks"
            with path.open("wb") as file:
                writer = BlockFileWriter(file, len(numbers))
                self._runs.merge_into(writer)
        return writer.finish(), path

    def _put(
        self, stem: str, block_file: BlockFile, blocks: bytes | Path, encoded: bytes
    ) -> tuple[StoredFile, StoredFile]:
        """Returns the data and the index file, which are one if they are small."""
        name = f"{stem}.data"
        key = None if self._place is None else self._place.put(name, blocks)
        data = StoredFile(key=key or name, size_bytes=block_file.size_bytes, crc32=block_file.crc32)
        index = StoredFile(key=f"{stem}.index", size_bytes=len(encoded), crc32=zlib.crc32(encoded))
        if key is None and isinstance(blocks, bytes) and len(blocks) <= _JOINED_BYTES:
            self._store.put(name, encoded + blocks)
            return data, replace(index, key=name)
        if key is None:
            self._store.put(name, blocks)
        self._store.put(index.key, encoded)
        return data, index

    def _spill(self) -> None:
        numbers = self._block_numbers()
        self._runs.add(len(numbers), lambda writer: self._buffer.write(writer, numbers, self._statistics.add))
