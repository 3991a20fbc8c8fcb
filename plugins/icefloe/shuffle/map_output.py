"""Map outputs: one map task's changed rows, partitioned, as files that a commit record names.

Rows wait in memory, then go to local disk as runs of blocks, merged partition by partition at the end (the sort-based
shuffle of Spark). The commit record is written last.
"""

import io
import uuid
import zlib
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.node.machine import BatchPlace
from icefloe.shuffle.block_file import BlockFile, BlockFileWriter, SpilledRows
from icefloe.shuffle.blocks import BlockRows, HashRows, reduce_ids
from icefloe.shuffle.committed_output import MapOutputLog, MapOutputRecord, StoredFile, schema_fingerprint
from icefloe.shuffle.index_file import GatheredStatistics, PartitionStatistics, encode_index, encode_statistics
from icefloe.storage.local_folders import on_local_disk, task_folder
from icefloe.storage.store import Store

__all__ = ["MapOutputWriter", "new_attempt"]

_CANNOT_KEEP: Final = "the spill files of a map task cannot be written"
_JOINED_BYTES: Final = 1 << 20
"""Blocks up to here are in one file with their index: one request writes both, and coalesce reads both by one."""


def new_attempt() -> str:
    """A name that no other attempt has, on any machine."""
    return uuid.uuid4().hex


class MapOutputWriter(ExitStack):
    """Takes a map task's changed rows chunk by chunk and commits them as its output.

    Use it as a context manager: it owns temporary files.

    Args:
        generation: from `MapOutputLog.current`.
        memory_bytes: of the writer; rows past a third of it are spilled.
        place: of the data file on this machine; None, or if it is full: the store.
        hash_partitions: 0: no hash rows are kept.
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
        hash_partitions: int = 0,
    ) -> None:
        super().__init__()
        self._store = store
        self._map_id = map_id
        self._generation = generation
        self._attempt = attempt
        self._schema = BlockRows.schema(schema)
        self._num_partitions = num_partitions
        self._hash_partitions = hash_partitions
        self._place = place
        # A third, because rows are there twice while the buffered batches become one, and then once more as compressed
        # blocks or in the order of their partitions. A quarter of it is for hash rows, if there are any.
        buffer_bytes = memory_bytes // 12
        self._rows = self.enter_context(
            SpilledRows(
                self._schema,
                num_partitions,
                memory_bytes=buffer_bytes * (3 if hash_partitions else 4),
            )
        )
        self._hash_rows = self.enter_context(SpilledRows(HashRows.schema(), hash_partitions, memory_bytes=buffer_bytes))
        self._statistics = GatheredStatistics()

    def write(
        self,
        batch: pa.RecordBatch,
        *,
        change_ordinals: NDArray[np.int32],
        weights: NDArray[np.int64],
        row_hashes: RowHashes,
        identity_hashes: RowHashes,
    ) -> None:
        """Takes rows; all arguments have one length, and the batch has the table's columns."""
        if not batch.num_rows:
            return
        ours = [pa.array(weights, pa.int64()), pa.array(change_ordinals, pa.int32())]
        rows = pa.RecordBatch.from_arrays([*batch.columns, *ours], schema=self._schema)
        count = partial(
            PartitionStatistics.of_rows, change_ordinals=change_ordinals, weights=weights, row_hashes=row_hashes
        )
        ids = reduce_ids(identity_hashes, self._num_partitions)
        self._statistics.add(count(reduce_ids=ids))
        self._rows.add(rows, ids)
        if self._hash_partitions:
            ids = reduce_ids(row_hashes, self._hash_partitions)
            self._statistics.add(count(reduce_ids=self._num_partitions + ids))
            self._hash_rows.add(HashRows(row_hashes, identity_hashes, change_ordinals, weights).batch, ids)

    def commit(self, **figures: Any) -> MapOutputRecord:
        """Writes the files, then the commit record; returns the record that counts, of whichever attempt.

        Args:
            figures: the record's, from ``removed_rows_read`` to ``seconds``.
        """
        stem = f"{self._map_id}.{self._generation}.{self._attempt}"
        block_file, blocks = self._block_file()
        statistics = self._statistics.total()
        encoded = encode_index(block_file.offsets) + encode_statistics(statistics, block_file.block_crc32)
        data, index = self._put(stem, block_file, blocks, encoded)
        ordinals = statistics.sums(0, self._num_partitions)
        record = MapOutputRecord(
            map_id=self._map_id,
            generation=self._generation,
            attempt=self._attempt,
            data=data,
            index=index,
            num_partitions=self._num_partitions,
            hash_partitions=self._hash_partitions,
            schema_fingerprint=schema_fingerprint(self._schema),
            largest_block_bytes=int(block_file.content_bytes.max(initial=0)),
            rows=sum(sums.rows for sums in ordinals),
            ordinals=ordinals,
            **figures,
        )
        winner = MapOutputLog(self._store).commit(record)
        # Another attempt was faster. The names of our files hold our attempt, so nothing refers to them.
        if winner.attempt != self._attempt:
            self._store.delete(f"{stem}.{name}" for name in ("data", "index"))
            if self._place is not None:
                self._place.delete(f"{stem}.data")
        return winner

    def _block_file(self) -> tuple[BlockFile, bytes | Path]:
        """All blocks, and their bytes or local file."""
        if not (self._rows.is_on_disk or self._hash_rows.is_on_disk):
            memory = io.BytesIO()
            return self._written(memory), memory.getvalue()
        with on_local_disk(_CANNOT_KEEP):
            path = self.enter_context(task_folder("spill")) / "output.blocks"
            with path.open("wb") as file:
                return self._written(file), path

    def _written(self, file: BinaryIO) -> BlockFile:
        writer = BlockFileWriter(file, self._num_partitions + self._hash_partitions)
        self._rows.write_to(writer, 0)
        self._hash_rows.write_to(writer, self._num_partitions)
        return writer.finish()

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
