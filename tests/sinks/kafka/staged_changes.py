"""Proven batches of a small table, as the kafka sink is given them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa

from icefloe.changes.columns import ChangeColumns
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch, StagedPart

COMMITTED = datetime(2026, 11, 22, 3, 4, 5, 678901, tzinfo=UTC)
TABLE = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("carrier", pa.string())])
FLIGHTS = Origin(owner="checkpoint-1", pipeline="flights", table="nyc.flights")


@dataclass(frozen=True, kw_only=True)
class Staged:
    """A batch of parts; each part is a list of rows ``(change type, column, ...)`` with an ordinal of 0."""

    number: int
    parts: Sequence[Sequence[tuple[Any, ...]]]
    table: pa.Schema = TABLE
    origin: Origin = FLIGHTS
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def schema(self) -> pa.Schema:
        return ChangeColumns.schema(self.table, with_batch=True)

    @property
    def batch(self) -> ProvenBatch:
        rows = sum(len(part) for part in self.parts)
        options: dict[str, Any] = {
            "after_snapshot_id": 1,
            "up_to_snapshot_id": 2,
            "identity": ("id",),
            "hash_key": 9,
        } | self.options
        return ProvenBatch(
            origin=self.origin, batch_number=self.number, rows=rows, counts={}, schema=self.schema, **options
        )

    @property
    def staged(self) -> list[StagedPart]:
        first_rows = [sum(len(part) for part in self.parts[:number]) for number in range(len(self.parts))]
        return [self._part(number, first_row) for number, first_row in enumerate(first_rows)]

    def rows_of(self, part: int) -> pa.RecordBatch:
        fixed = {
            "_batch": self.number,
            "_change_ordinal": 0,
            "_commit_snapshot_id": 2**60 + self.number,
            "_commit_timestamp": COMMITTED,
        }
        rows = [
            {**fixed, "_change_type": kind, **dict(zip(self.table.names, values, strict=True))}
            for kind, *values in self.parts[part]
        ]
        return pa.RecordBatch.from_pylist(rows, schema=self.schema)

    def load(self, *, begins_anew: bool = True) -> "Staged":
        return replace(self, options={**self.options, "is_load": True, "begins_anew": begins_anew})

    def _part(self, number: int, first_row: int) -> StagedPart:
        rows = self.rows_of(number)
        read = partial(iter, [rows])
        return StagedPart(number=number, first_row=first_row, rows=rows.num_rows, size_bytes=rows.nbytes, read=read)


def inserts(number: int, ids: range, **options: Any) -> Staged:
    """One part that inserts these ids."""
    return Staged(number=number, parts=[[("INSERT", each, f"carrier-{each}") for each in ids]], **options)


LOAD = Staged(number=0, parts=[[("INSERT", 1, "a"), ("INSERT", 2, "b")], [("INSERT", 3, "c")]]).load()
CHANGES = Staged(
    number=1, parts=[[("UPDATE_BEFORE", 1, "a"), ("UPDATE_AFTER", 1, "A"), ("DELETE", 2, "b"), ("INSERT", 4, "d")]]
)
