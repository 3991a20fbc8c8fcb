"""The block ``source`` of Debezium's envelope: where a change comes from."""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.changes.columns import CHANGE_ORDINAL, COMMIT_SNAPSHOT_ID, COMMIT_TIMESTAMP
from icefloe.sinks.batch_to_deliver import ProvenBatch
from icefloe.version import VERSION

SOURCE: Final = pa.schema([
    pa.field("version", pa.string(), nullable=False),
    pa.field("connector", pa.string(), nullable=False),
    pa.field("name", pa.string(), nullable=False),
    pa.field("ts_ms", pa.int64(), nullable=False),
    pa.field("snapshot", pa.string()),
    pa.field("db", pa.string(), nullable=False),
    pa.field("sequence", pa.string()),
    pa.field("ts_us", pa.int64()),
    pa.field("ts_ns", pa.int64()),
    pa.field("table", pa.string(), nullable=False),
    pa.field("snapshot_id", pa.string()),
    pa.field("batch", pa.int64()),
    pa.field("ordinal", pa.int32()),
])  # fmt: skip
"""Debezium's fields in its order, then ours. A snapshot id is text: JSON readers round numbers above 2^53."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSource:
    """The facts that are the same for all changes of a batch.

    Attributes:
        snapshot: ``true`` for rows of a load. Parts are delivered side by side, so no row of a load is its ``last``.
    """

    name: str
    db: str
    table: str
    snapshot: str
    batch: int

    @classmethod
    def of(cls, batch: ProvenBatch) -> "EventSource":
        """Of a batch."""
        db, _, table = batch.origin.table.rpartition(".")
        return cls(
            name=batch.origin.pipeline, db=db, table=table, snapshot="true" if batch.is_load else "false",
            batch=batch.batch_number,
        )  # fmt: skip

    def rows(self, changes: pa.RecordBatch) -> pa.RecordBatch:
        """A row of `SOURCE` for each change."""
        micros = changes.column(COMMIT_TIMESTAMP).cast(pa.int64())
        found = {
            # Commits are no older than 1970, so truncation rounds down.
            "ts_ms": pc.divide(micros, 1000),
            "ts_us": micros,
            "ts_ns": pc.multiply(micros, 1000),
            "snapshot_id": changes.column(COMMIT_SNAPSHOT_ID).cast(pa.string()),
            "ordinal": changes.column(CHANGE_ORDINAL),
        }
        columns = [found.get(field.name) for field in SOURCE]
        constants = self._constants()
        return pa.RecordBatch.from_arrays(
            [
                pa.repeat(pa.scalar(constants[field.name], field.type), changes.num_rows) if column is None else column
                for field, column in zip(SOURCE, columns, strict=True)
            ],
            schema=SOURCE,
        )

    def truncation(self, snapshot_id: int | None, ts_ms: int) -> dict[str, object]:
        """One row of `SOURCE` for a table that is loaded again."""
        return {
            **self._constants(), "ts_ms": ts_ms, "ts_us": ts_ms * 1000, "ts_ns": ts_ms * 1_000_000,
            "snapshot_id": None if snapshot_id is None else str(snapshot_id), "ordinal": 0,
        }  # fmt: skip

    def _constants(self) -> dict[str, object]:
        return {
            "version": VERSION, "connector": "icefloe", "name": self.name, "ts_ms": 0, "snapshot": self.snapshot,
            "db": self.db, "sequence": None, "ts_us": 0, "ts_ns": 0, "table": self.table, "snapshot_id": "",
            "batch": self.batch, "ordinal": 0,
        }  # fmt: skip
