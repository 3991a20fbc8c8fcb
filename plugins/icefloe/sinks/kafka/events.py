"""Changes as events with keys and sources."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.changes.columns import ChangeColumns, ChangeType
from icefloe.sinks.batch_to_deliver import ProvenBatch, column_type, named_columns
from icefloe.sinks.parquet_files import row_slices
from icefloe.version import VERSION

_MOST_ROWS: Final = 8_192
_MOST_BYTES: Final = 16 * 2**20
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
PIPELINE_HEADER: Final = "pipeline"
BATCH_HEADER: Final = "batch"
SNAPSHOT_HEADER: Final = "snapshot_id"
"""Headers of every change, as text; a truncation and the marks of a batch have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRows:
    """The rows of some events, and where each event has its images."""

    rows: pa.RecordBatch
    first_row: int
    rows_before: int
    kinds: NDArray[np.uint8]  # DELETE, INSERT or UPDATE_AFTER, as `ChangeType` codes
    befores: NDArray[np.int64]  # position of the row before; -1: there is none
    afters: NDArray[np.int64]  # position of the row after; -1: there is none

    @classmethod
    def of(cls, rows: pa.RecordBatch, *, first_row: int, rows_before: int) -> "EventRows":
        """The events of rows that cut no update."""
        kinds = kinds_of(rows)
        is_second = np.concatenate([[False], kinds[:-1] == ChangeType.UPDATE_BEFORE])
        positions = np.flatnonzero(kinds != ChangeType.UPDATE_BEFORE)
        own, paired = kinds[positions], is_second[positions]
        befores = np.where(own == ChangeType.DELETE, positions, np.where(paired, positions - 1, -1))
        afters = np.where(own == ChangeType.DELETE, -1, positions)
        return cls(rows=rows, first_row=first_row, rows_before=rows_before, kinds=own, befores=befores, afters=afters)

    @property
    def positions(self) -> NDArray[np.int64]:
        """Position of the row with each event's key, ordinal and snapshot."""
        return np.where(self.afters < 0, self.befores, self.afters)

    @property
    def deletes(self) -> list[bool]:
        """True for each event of a deleted row."""
        return (self.kinds == ChangeType.DELETE).tolist()

    @property
    def snapshot_ids(self) -> list[int]:
        """The snapshot of each event."""
        return self.rows.column(ChangeColumns.SNAPSHOT_ID).take(pa.array(self.positions)).to_pylist()

    @property
    def orders(self) -> NDArray[np.int64]:
        """Numbers that grow with each event of the batch, from 1; an update takes two."""
        return self.rows_before + self.ends

    @property
    def ends(self) -> NDArray[np.int64]:
        """The number of rows of the part that each event completes."""
        return self.first_row + np.maximum(self.befores, self.afters) + 1


def event_rows(batches: Iterable[pa.RecordBatch], *, skip_rows: int = 0, rows_before: int = 0) -> Iterator[EventRows]:
    """The events of a part without ``skip_rows`` delivered rows, some thousand at a time."""
    first_row, held = 0, None
    for batch in batches:
        for rows in row_slices(batch, max_rows=_MOST_ROWS, max_bytes=_MOST_BYTES):
            if first_row + rows.num_rows <= skip_rows:
                first_row += rows.num_rows
                continue
            start = max(skip_rows - first_row, 0)
            first_row += start
            kept = rows.slice(start)
            if held is not None:
                kept = pa.concat_batches([held, kept])
                first_row -= 1
                held = None
            if kinds_of(kept)[-1] == ChangeType.UPDATE_BEFORE:
                # The row after is in the next slice.
                kept, held = kept.slice(0, kept.num_rows - 1), kept.slice(kept.num_rows - 1)
            if kept.num_rows:
                yield EventRows.of(kept, first_row=first_row, rows_before=rows_before)
            first_row += kept.num_rows + (held is not None)


def kinds_of(rows: pa.RecordBatch) -> NDArray[np.uint8]:
    """`ChangeType` codes of rows."""
    names = pa.array([kind.name for kind in ChangeType])
    return pc.index_in(rows.column(ChangeColumns.TYPE), value_set=names).to_numpy(zero_copy_only=False).astype(np.uint8)


def key_schema(batch: ProvenBatch) -> pa.Schema:
    """Names and types of a key's columns; empty if rows have no identity."""
    # 64-bit integers and doubles: a widened column must not change the bytes of a key, which decide on its partition.
    return widened(pa.schema([pa.field(name, column_type(batch.schema, name)) for name in batch.identity]))


def widened(schema: pa.Schema) -> pa.Schema:
    """The schema of keys for identifier columns."""
    return pa.schema([pa.field(field.name, _widened(field.type)) for field in schema])


def fixed_types(batch: ProvenBatch, *, is_avro: bool) -> Mapping[str, str]:
    """Types of key columns whose promotion would change the bytes of keys, by column."""
    # A date becomes a timestamp, another number. The schema of a decimal gets another precision.
    return {
        field.name: str(field.type)
        for field in key_schema(batch)
        if pa.types.is_date(field.type) or (is_avro and pa.types.is_decimal(field.type))
    }


def key_rows(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The keys of rows.

    >>> rows = pa.RecordBatch.from_pydict({"at": [{"x": 1}], "f": [-0.0]})
    >>> schema = pa.schema({"at.x": pa.int64(), "f": pa.float64()})
    >>> key_rows(rows, schema).to_pylist()
    [{'at.x': 1, 'f': 0.0}]
    """
    columns = []
    for field, column in zip(schema, named_columns(rows, schema.names), strict=True):
        column = column.cast(field.type) if column.type != field.type else column
        if pa.types.is_floating(field.type):
            # 0.0 and -0.0 are one identity. A sum with 0.0 is never -0.0.
            column = pc.add(column, 0.0)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _widened(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_integer(kind):
        return pa.int64()
    return pa.float64() if pa.types.is_floating(kind) else kind


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSource:
    """Facts of all changes of a batch."""

    name: str
    db: str
    table: str
    snapshot: str  # ``true`` for rows of a load. Parts are delivered side by side, so no row is its ``last``.
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
        micros = changes.column(ChangeColumns.TIMESTAMP).cast(pa.int64())
        found = {
            # Commits are no older than 1970, so truncation rounds down.
            "ts_ms": pc.divide(micros, 1000),
            "ts_us": micros,
            "ts_ns": pc.multiply(micros, 1000),
            "snapshot_id": changes.column(ChangeColumns.SNAPSHOT_ID).cast(pa.string()),
            "ordinal": changes.column(ChangeColumns.ORDINAL),
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
