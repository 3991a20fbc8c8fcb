"""Changes as the batch code hands them to a sink, and what is said of them at commit."""

from decimal import Decimal

import numpy as np
import pyarrow as pa

from icefloe.changes.columns import ChangeColumns, ChangeType
from icefloe.sinks.manifest import BatchSummary, CommitMessage

__all__ = ["SCHEMA", "changes", "message", "rechunked", "summary"]

TABLE_SCHEMA = pa.schema([
    pa.field("id", pa.int64(), nullable=False),
    pa.field("name", pa.large_string()),
    pa.field("amount", pa.decimal128(9, 2)),
    pa.field("tags", pa.large_list(pa.field("element", pa.large_string()))),
    pa.field("key", pa.uuid()),
    pa.field("at", pa.timestamp("us", tz="UTC")),
])  # fmt: skip
SCHEMA = ChangeColumns.schema(TABLE_SCHEMA, with_batch=True)


def changes(rows: int, *, first: int = 0, batch_number: int = 3) -> pa.RecordBatch:
    """Rows that compress badly and differ from one another; some have nulls."""
    ids = np.arange(first, first + rows)
    scattered = (ids * 2654435761) % 2**32
    rows_of_table = pa.RecordBatch.from_arrays(
        [
            pa.array(ids),
            pa.array([f"name {n}" if n % 7 else None for n in scattered], pa.large_string()),
            pa.array([Decimal(int(n) % 10**7) / 100 for n in scattered], pa.decimal128(9, 2)),
            pa.array([[f"t{i % 5}"] * (i % 3) for i in ids], TABLE_SCHEMA.field("tags").type),
            pa.ExtensionArray.from_storage(
                pa.uuid(), pa.array([int(n).to_bytes(16, "big") for n in scattered], pa.binary(16))
            ),
            pa.array(scattered, pa.timestamp("us", tz="UTC")),
        ],
        schema=TABLE_SCHEMA,
    )
    return ChangeColumns.batch(
        rows_of_table,
        change_types=(ids % len(ChangeType)).astype(np.uint8),
        change_ordinals=(ids % 2).astype(np.int32),
        snapshot_ids=np.array([2**62 + 1, 2**62 + 2], np.int64),
        timestamps_us=np.array([1_000_000, 2_000_000], np.int64),
        batch_number=batch_number,
    )


def rechunked(batch: pa.RecordBatch, rows: int) -> list[pa.RecordBatch]:
    """The same rows in batches of ``rows``."""
    return [batch.slice(start, rows) for start in range(0, batch.num_rows, rows)]


def message(number: int, rows: int, files: dict[str, int]) -> CommitMessage:
    return CommitMessage(
        number=number,
        rows=rows,
        counts={"insert": rows, "delete": 0, "update_before": 0, "update_after": 0},
        hash_sum=number + 1,
        files=files,
    )


def summary(batch_number: int, rows: int, *, pipeline: str = "flights") -> BatchSummary:
    return BatchSummary(
        pipeline=pipeline,
        table="nyc.flights",
        batch_number=batch_number,
        after_snapshot_id=None,
        up_to_snapshot_id=2**62 + 2,
        steps=2,
        rows=rows,
        counts={"insert": rows, "delete": 0, "update_before": 0, "update_after": 0},
        hash_sum=7,
        hash_key=9,
    )
