"""The parts that the sinks in memory share."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch, StagedPart, column_path

__all__ = ["TakenError", "final_rows", "key_of", "refuse_other", "selected"]


class TakenError(TerminalError):
    """Somebody else claimed the destination."""


def refuse_other(claim: Mapping[str, Any], origin: Origin) -> None:
    """Raises if somebody else claimed the destination."""
    if claim.get("owner", origin.owner) != origin.owner:
        raise TakenError("the destination is another pipeline's")


def final_rows(batch: ProvenBatch, parts: Sequence[StagedPart]) -> dict[str, Mapping[str, Any] | None]:
    """The last row of each key that the parts change; None if it is deleted."""
    found: dict[str, Mapping[str, Any] | None] = {}
    for changes in (changes for part in parts for changes in part.read()):
        for row, shown in zip(changes.to_pylist(), batch.shown_rows(changes).to_pylist(), strict=True):
            if row["_change_type"] == "DELETE":
                found[key_of(batch, row)] = None
            elif row["_change_type"] != "UPDATE_BEFORE":
                found[key_of(batch, row)] = shown
    return found


def key_of(batch: ProvenBatch, row: Mapping[str, Any]) -> str:
    found = []
    for name in batch.identity:
        value: Any = row
        for each in column_path(batch.schema, name):
            value = None if value is None else value[each]
        found.append(value)
    return repr(found)


def selected(rows: Iterable[Mapping[str, Any]], schema: pa.Schema, keys: pa.RecordBatch | None) -> pa.RecordBatch:
    """Rows in a schema, only those of some keys."""
    found = [dict(row) for row in rows]
    if keys is not None:
        wanted = keys.to_pylist()
        found = [row for row in found if {name: row.get(name) for name in keys.schema.names} in wanted]
    return pa.RecordBatch.from_pylist(found, schema=schema)
