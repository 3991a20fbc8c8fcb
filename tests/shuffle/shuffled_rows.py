"""Rows for shuffle tests: small tables, their hashes and their map outputs."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.shuffle.committed_output import MapOutputRecord
from icefloe.shuffle.map_output import MapOutputWriter
from icefloe.storage.store import Store

__all__ = ["TABLE_SCHEMA", "Rows", "commit_rows", "some_rows"]

TABLE_SCHEMA = pa.schema([
    pa.field("id", pa.int64(), nullable=False),
    pa.field("name", pa.string()),
    pa.field("tags", pa.list_(pa.string())),
    pa.field("amount", pa.decimal128(9, 2)),
])  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    batch: pa.RecordBatch
    reduce_ids: NDArray[np.int32]
    change_ordinals: NDArray[np.int32]
    weights: NDArray[np.int64]
    row_hashes: RowHashes

    @property
    def identity_hashes(self) -> RowHashes:
        """Their remainders are the reduce ids."""
        return RowHashes(np.zeros(len(self.reduce_ids), np.uint64), self.reduce_ids.astype(np.uint64))

    def slice(self, start: int, stop: int) -> "Rows":
        some = np.arange(start, min(stop, len(self.weights)))
        return Rows(
            batch=self.batch.slice(start, stop - start),
            reduce_ids=self.reduce_ids[some],
            change_ordinals=self.change_ordinals[some],
            weights=self.weights[some],
            row_hashes=self.row_hashes.take(some),
        )

    def write(self, writer: MapOutputWriter, **changed: RowHashes) -> None:
        hashes = {"row_hashes": self.row_hashes, "identity_hashes": self.identity_hashes} | changed
        writer.write(self.batch, change_ordinals=self.change_ordinals, weights=self.weights, **hashes)


def some_rows(count: int, *, num_partitions: int, ordinals: int = 1, first_id: int = 0) -> Rows:
    """Rows that are the same on every run; every third is removed, every fifth has nulls."""
    ids = np.arange(first_id, first_id + count)
    return Rows(
        batch=_batch(ids),
        reduce_ids=(ids * 7 % num_partitions).astype(np.int32),
        change_ordinals=(ids % ordinals).astype(np.int32),
        weights=np.where(ids % 3 == 0, -1, 1).astype(np.int64),
        row_hashes=RowHashes(
            high=ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15), low=ids.astype(np.uint64) << np.uint64(60)
        ),
    )


def _batch(ids: NDArray[np.int64]) -> pa.RecordBatch:
    amounts = pa.array([None if i % 5 == 0 else int(i) % 10**6 for i in ids], pa.int64())
    return pa.RecordBatch.from_arrays(
        [
            pa.array(ids, pa.int64()),
            pa.array([None if i % 5 == 0 else f"name {i}" for i in ids], pa.string()),
            pa.array([None if i % 5 == 0 else ["a", str(i)][: i % 3] for i in ids], pa.list_(pa.string())),
            amounts.cast(pa.decimal128(21, 2)).cast(pa.decimal128(9, 2)),
        ],
        schema=TABLE_SCHEMA,
    )


def commit_rows(
    store: Store,
    rows: Rows,
    *,
    num_partitions: int,
    map_id: int = 0,
    generation: int = 0,
    attempt: str = "attempt-a",
    memory_bytes: int = 1 << 30,
    batch_rows: int | None = None,
) -> MapOutputRecord:
    """Writes rows as one map output, in batches of ``batch_rows``."""
    step = batch_rows or max(1, rows.batch.num_rows)
    with MapOutputWriter(
        store,
        map_id=map_id,
        generation=generation,
        attempt=attempt,
        schema=TABLE_SCHEMA,
        num_partitions=num_partitions,
        memory_bytes=memory_bytes,
    ) as writer:
        for start in range(0, rows.batch.num_rows, step):
            rows.slice(start, start + step).write(writer)
        return writer.commit(removed_rows_read=10, added_rows_read=20, carried_over_rows=5, bytes_read=999, seconds=1.5)
