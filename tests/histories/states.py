"""The states of one table as multisets of rows, in whatever schema of the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, StructType

from histories.selection import Selection
from histories.trace import Trace
from support.spark.row_counts import Row, freeze

__all__ = ["IdentifiedState", "State", "StateCache", "projected"]

State = Callable[[int | None], Counter[Row]]
"""The rows at a snapshot; before the first: None."""
IdentifiedState = Callable[[int | None], dict[int, Row] | None]
"""The rows at a snapshot by their row ids; None where some have none."""
_ROW_ID: Final = "_row_id"


@dataclass(slots=True)
class StateCache:
    """Reads each state once.

    Attributes:
        trace: knows the full schema of each snapshot.
        read: the state at a snapshot, in that schema, with the row ids where there are any.
    """

    trace: Trace
    read: Callable[[int], pa.Table]
    _rows: dict[int, list[dict[str, Any]]] = field(default_factory=dict)

    def keep(self, snapshot_ids: Iterable[int]) -> None:
        """Read states while they are there."""
        for snapshot_id in snapshot_ids:
            if snapshot_id not in self._rows:
                self._rows[snapshot_id] = self.read(snapshot_id).to_pylist()

    def selected(self, schema: Schema, selection: Selection) -> State:
        """The states as rows of a schema of the table, matched by field id, less what is not selected."""

        def state(snapshot_id: int | None) -> Counter[Row]:
            return Counter(row for _, row in self._identified(snapshot_id, schema, selection))

        return cache(state)

    def by_row_id(self, schema: Schema, selection: Selection) -> IdentifiedState:
        """Likewise, by row id; None where a row has none."""

        def state(snapshot_id: int | None) -> dict[int, Row] | None:
            rows = list(self._identified(snapshot_id, schema, selection))
            return None if any(row_id is None for row_id, _ in rows) else dict(rows)

        return cache(state)

    def _identified(
        self, snapshot_id: int | None, schema: Schema, selection: Selection
    ) -> Iterator[tuple[int | None, Row]]:
        if snapshot_id is None:
            return
        self.keep([snapshot_id])
        old = self.trace.full_schemas[snapshot_id].as_struct()
        whole = schema.as_struct()
        part = selection.schema(schema).as_struct()
        for given in self._rows[snapshot_id]:
            row = projected(given, old, whole)
            if selection.lets_pass(row):
                selected = projected(row, whole, part)
                yield given.get(_ROW_ID), tuple(freeze(value) for value in selected.values())


def projected(value: Any, old: IcebergType, new: IcebergType) -> Any:
    """A value of one type as another version of the type has it: fields by their ids, new ones with their default."""
    if value is None:
        return None
    if isinstance(old, StructType) and isinstance(new, StructType):
        by_id = {field.field_id: field for field in old.fields}
        return {
            field.name: projected(value[by_id[field.field_id].name], by_id[field.field_id].field_type, field.field_type)
            if field.field_id in by_id
            else field.initial_default
            for field in new.fields
        }
    if isinstance(old, ListType) and isinstance(new, ListType):
        return [projected(each, old.element_type, new.element_type) for each in value]
    if isinstance(old, MapType) and isinstance(new, MapType):
        return [
            (projected(key, old.key_type, new.key_type), projected(each, old.value_type, new.value_type))
            for key, each in value
        ]
    return value
