"""The record of a table while a history was applied to it: the truth about its steps, kept without icefloe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.types import NestedField, StructType

__all__ = ["ExpectedStep", "Trace"]

_ROW_LINEAGE: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedStep:
    """One step: the states that bound it, the ids that its changes may carry, and the time they must."""

    start: int | None
    end: int
    commit_snapshot_ids: frozenset[int]
    timestamp_ms: int | None


@dataclass(slots=True)
class Trace:
    """The heads of main, in the order in which they were seen, and when each snapshot appeared.

    ``schemas``, ``metadata_locations`` and ``format_versions`` are those of the table when a snapshot was new;
    ``full_schemas`` have the columns too that were dropped before, whose values files still hold.

    `observe` is called after every commit of metadata: what appears between two calls was published together.
    """

    heads: list[int] = field(default_factory=list)
    published: dict[int, int] = field(default_factory=dict)
    snapshots: dict[int, Snapshot] = field(default_factory=dict)
    schemas: dict[int, Schema] = field(default_factory=dict)
    full_schemas: dict[int, Schema] = field(default_factory=dict)
    metadata_locations: dict[int, str] = field(default_factory=dict)
    format_versions: dict[int, int] = field(default_factory=dict)
    _calls: int = 0

    def observe(self, table: Table) -> None:
        """Take down what is new."""
        self._calls += 1
        for snapshot in table.metadata.snapshots:
            self.published.setdefault(snapshot.snapshot_id, self._calls)
            if snapshot.snapshot_id not in self.snapshots:
                self._first_seen(table, snapshot)
        head = table.metadata.current_snapshot_id
        if head is not None and self.heads[-1:] != [head]:
            self.heads.append(head)

    def _first_seen(self, table: Table, snapshot: Snapshot) -> None:
        schema = None if snapshot.schema_id is None else table.metadata.schema_by_id(snapshot.schema_id)
        self.snapshots[snapshot.snapshot_id] = snapshot
        self.schemas[snapshot.snapshot_id] = schema or table.schema()
        self.full_schemas[snapshot.snapshot_id] = full_schema(table.metadata, schema or table.schema())
        self.metadata_locations[snapshot.snapshot_id] = table.metadata_location
        self.format_versions[snapshot.snapshot_id] = table.metadata.format_version

    def lineage(self, snapshot_id: int | None) -> list[int]:
        """The snapshot and all its ancestors, oldest first, expired ones too."""
        found: list[int] = []
        while snapshot_id is not None:
            found.append(snapshot_id)
            snapshot_id = self.snapshots[snapshot_id].parent_snapshot_id
        return found[::-1]

    def steps(self, after: int | None, up_to: int, *, split: bool = False) -> list[ExpectedStep] | None:
        """The steps of a range; None where main never went from one to the other."""
        lineage = self.lineage(up_to)
        if after is None or after in lineage:
            return self._commits(lineage[0 if after is None else lineage.index(after) + 1 :], split=split)
        landing = self._landing(after, up_to)
        if landing is None:
            return None
        move = ExpectedStep(start=after, end=landing, commit_snapshot_ids=frozenset([landing]), timestamp_ms=None)
        return [move, *self._commits(lineage[lineage.index(landing) + 1 :], split=split)]

    def has_row_ids(self, snapshot_id: int) -> bool:
        """True if the table had row lineage when the snapshot was new."""
        return self.format_versions[snapshot_id] >= _ROW_LINEAGE

    def left_behind(self) -> list[int]:
        """Former heads of main that its present head does not descend from, oldest first."""
        kept = set(self.lineage(self.heads[-1])) if self.heads else set()
        return [head for head in dict.fromkeys(self.heads) if head not in kept]

    def is_replace(self, snapshot_id: int) -> bool:
        """True if the snapshot says that it changed no row."""
        summary = self.snapshots[snapshot_id].summary
        return summary is not None and summary.operation is Operation.REPLACE

    def _commits(self, lineage: Sequence[int], *, split: bool) -> list[ExpectedStep]:
        groups: list[list[int]] = []
        for snapshot_id in lineage:
            together = groups and self.published[groups[-1][-1]] == self.published[snapshot_id] and not split
            if together:
                groups[-1].append(snapshot_id)
            else:
                groups.append([snapshot_id])
        return [step for group in groups if (step := self._step(group))]

    def _step(self, group: Sequence[int]) -> ExpectedStep | None:
        changing = [snapshot_id for snapshot_id in group if not self.is_replace(snapshot_id)]
        if not changing:
            return None
        last = self.snapshots[changing[-1]]
        return ExpectedStep(
            start=self.snapshots[group[0]].parent_snapshot_id,
            end=group[-1],
            commit_snapshot_ids=frozenset([last.snapshot_id]),
            timestamp_ms=last.timestamp_ms,
        )

    def _landing(self, after: int, up_to: int) -> int | None:
        """The end of the last move without a commit, on the way of main from one snapshot to the other."""
        heads = self.heads
        arrivals = [index for index, head in enumerate(heads) if up_to in self.lineage(head)]
        exact = [index for index in arrivals if heads[index] == up_to]
        if not arrivals:
            return None
        arrival = exact[-1] if exact else arrivals[0]
        departures = [index for index in range(arrival) if heads[index] == after]
        if not departures:
            return None
        for index in range(arrival, departures[-1], -1):
            if heads[index - 1] not in self.lineage(heads[index]):
                return heads[index] if heads[index] in self.lineage(up_to) else None
        return None


def full_schema(metadata: TableMetadata, schema: Schema) -> Schema:
    """One schema of a table with what it dropped, optional and named after its field id, after what it has."""
    others = [each.as_struct() for each in metadata.schemas]
    return Schema(*_completed(schema.as_struct(), others).fields, schema_id=schema.schema_id)


def _completed(struct: StructType, others: Sequence[StructType]) -> StructType:
    versions: dict[int, list[NestedField]] = {}
    for other in others:
        for each in other.fields:
            versions.setdefault(each.field_id, []).append(each)
    present = {field.field_id for field in struct.fields}
    dropped = [each[-1] for field_id, each in versions.items() if field_id not in present]
    return StructType(
        *(_with_fields(field, versions) for field in struct.fields),
        *(
            _with_fields(field.model_copy(update={"name": f"dropped {field.field_id}", "required": False}), versions)
            for field in dropped
        ),
    )


def _with_fields(field: NestedField, versions: Mapping[int, Iterable[NestedField]]) -> NestedField:
    if not isinstance(field.field_type, StructType):
        return field
    others = [each.field_type for each in versions.get(field.field_id, ()) if isinstance(each.field_type, StructType)]
    return field.model_copy(update={"field_type": _completed(field.field_type, others)})
