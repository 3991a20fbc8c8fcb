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
_PROPERTIES: Final = "commit_properties"
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
        kinds = ChangeColumns.types(rows)
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
            found = rows if held is None else pa.concat_batches([held, rows])
            # The row after an update's first may be in the next slice.
            is_cut = ChangeColumns.types(found)[-1] == ChangeType.UPDATE_BEFORE
            stop = found.num_rows - is_cut
            held = found.slice(stop) if is_cut else None
            start = min(max(skip_rows - first_row, 0), stop)
            if start < stop:
                kept = found.slice(start, stop - start)
                yield EventRows.of(kept, first_row=first_row + start, rows_before=rows_before)
            first_row += stop


def operations(batch: ProvenBatch) -> list[str]:
    """Debezium's ``op`` of an event, by `ChangeType`."""
    return ["r"] * len(ChangeType) if batch.is_load else ["c", "d", "u", "u"]


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


def source_schema(changes: pa.Schema) -> pa.Schema:
    """The fields of ``source``."""
    if ChangeColumns.PROPERTIES not in changes.names:
        return SOURCE
    return SOURCE.append(changes.field(ChangeColumns.PROPERTIES).with_name(_PROPERTIES))


def source_rows(batch: ProvenBatch, changes: pa.RecordBatch) -> pa.RecordBatch:
    """A row of `source_schema` for each change, of its change columns."""
    micros = changes.column(ChangeColumns.TIMESTAMP).cast(pa.int64())
    db, _, table = batch.origin.table.rpartition(".")
    found = {
        "version": VERSION,
        "connector": "icefloe",
        "name": batch.origin.pipeline,
        # Commits are no older than 1970, so truncation rounds down.
        "ts_ms": pc.divide(micros, 1000),
        # Parts are delivered side by side, so no row of a load is its ``last``.
        "snapshot": "true" if batch.is_load else "false",
        "db": db,
        "ts_us": micros,
        "ts_ns": pc.multiply(micros, 1000),
        "table": table,
        "snapshot_id": changes.column(ChangeColumns.SNAPSHOT_ID).cast(pa.string()),
        "batch": batch.batch_number,
        "ordinal": changes.column(ChangeColumns.ORDINAL),
    }
    schema = source_schema(batch.schema)
    if ChangeColumns.PROPERTIES in batch.schema.names:
        found[_PROPERTIES] = changes.column(ChangeColumns.PROPERTIES)
    columns = []
    for field in schema:
        value = found.get(field.name)
        is_column = isinstance(value, pa.Array)
        columns.append(value if is_column else pa.repeat(pa.scalar(value, field.type), changes.num_rows))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
