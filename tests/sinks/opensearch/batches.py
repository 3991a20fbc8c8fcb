"""Small proven batches of a table with an id and a name."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from icefloe.changes.columns import ChangeColumns
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch, StagedPart
from icefloe.sinks.sink import PartDelivery

ORIGIN = Origin(owner="checkpoint-1", pipeline="people", table="app.people")
PEOPLE = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.large_string())])
TYPES = {"+": "INSERT", "-": "DELETE", "<": "UPDATE_BEFORE", ">": "UPDATE_AFTER"}


def changes(*given: tuple[str, int | None, str | None], schema: pa.Schema = PEOPLE, ordinal: int = 0) -> pa.RecordBatch:
    """Changes such as ``("+", 1, "Ada")``; ``-`` deletes, ``<`` and ``>`` are the images of an update."""
    rows = [dict(zip(schema.names, each[1:], strict=True)) for each in given]
    return change_rows([TYPES[each[0]] for each in given], pa.RecordBatch.from_pylist(rows, schema=schema), ordinal)


def change_rows(types: Sequence[str], rows: pa.RecordBatch, ordinal: int = 0) -> pa.RecordBatch:
    """Rows of any table as changes of one commit."""
    count = rows.num_rows
    columns = [
        pa.array([0] * count, pa.int64()),
        pa.array(types, pa.string()),
        pa.array([ordinal] * count, pa.int32()),
        pa.array([7] * count, pa.int64()),
        pa.array([1_700_000_000_000_000] * count, pa.timestamp("us", "UTC")),
    ]
    return pa.RecordBatch.from_arrays(
        [*columns, *rows.columns], schema=ChangeColumns.schema(rows.schema, with_batch=True)
    )


def part(*batches: pa.RecordBatch, number: int = 0) -> StagedPart:
    """A part with these changes."""
    rows = sum(each.num_rows for each in batches)
    return StagedPart(number=number, first_row=0, rows=rows, size_bytes=0, read=partial(iter, batches))


def proven(number: int, schema: pa.Schema = PEOPLE, identity: tuple[str, ...] = ("id",), **more: Any) -> ProvenBatch:
    """A batch; number 0 is a whole load unless ``is_load`` says otherwise."""
    is_load = more.get("is_load", number == 0)
    batch = ProvenBatch(
        origin=ORIGIN, batch_number=number, after_snapshot_id=None if is_load else number, up_to_snapshot_id=number + 1,
        is_load=is_load, begins_anew=is_load, ends_load=is_load, rows=0, counts={}, hash_key=9,
        schema=ChangeColumns.schema(schema, with_batch=True), identity=identity,
    )  # fmt: skip
    return replace(batch, **more)


def run(sink: Any, batch: ProvenBatch, *parts: StagedPart) -> list[PartDelivery]:
    """Deliver a whole batch."""
    begun = sink.begin(batch)
    delivered = [sink.deliver(batch, begun, each) for each in parts]
    sink.finish(batch, begun, delivered)
    return delivered


def rows_of(sink: Any, schema: pa.Schema = PEOPLE, **more: Any) -> list[dict[str, Any]]:
    """Rows that the sink holds, by the first column."""
    found = [row for page in sink.read_back(schema, **more) for row in page.to_pylist()]
    return sorted(found, key=lambda row: row[schema.names[0]])
