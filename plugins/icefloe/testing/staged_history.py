"""A small table whose commits are proven batches."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from threading import Event
from types import MappingProxyType
from typing import Any, Final, Self, TypeAlias

import pyarrow as pa

from icefloe.changes.columns import ChangeColumns
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.iceberg.step import Step as RecordedStep
from icefloe.iceberg.step import StepKind
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch, StagedPart

Row: TypeAlias = Mapping[str, Any]
"""Values of the table's columns by name."""
Step: TypeAlias = Mapping[int, Row | None]
"""A commit: the row of each ``id`` that it sets, without the ``id``; None: the row is deleted."""
FLIGHTS: Final = pa.schema([("id", pa.int64()), ("word", pa.string()), ("number", pa.int32())])
ORIGIN: Final = Origin(owner="0b5d4f0e-1111-4a6e-9d5b-000000000001", pipeline="flights_changes", table="nyc.flights")
OTHER: Final = replace(ORIGIN, owner="0b5d4f0e-1111-4a6e-9d5b-000000000002", pipeline="other_changes")
_PARTS: Final = 3
_FIRST_SNAPSHOT_ID: Final = 2**60 + 1
"""Above 2^53, so that a sink that keeps ids as floats is found."""
_START: Final = datetime(2026, 1, 1, tzinfo=UTC)
_START_MS: Final = int(_START.timestamp() * 1000)


class NotConformingError(AssertionError):
    """A sink breaks its contract: the case, and what was expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedBatch:
    """A proven batch, as its checkpoint knows it.

    Attributes:
        recorded: the facts of its first ``begin``, if any.
        ended: set when no run of a pipeline begins it again.
    """

    batch: ProvenBatch
    parts: tuple[StagedPart, ...]
    recorded: list[Mapping[str, Any]] = field(default_factory=list)
    ended: Event = field(default_factory=Event)

    @property
    def begun(self) -> Mapping[str, Any]:
        """The facts that every part gets."""
        return self.recorded[0]

    def record(self, begun: Mapping[str, Any]) -> None:
        """Record the first facts of ``begin``."""
        self.recorded.append(through_json(begun, "the answer of begin"))

    def replayed(self) -> Self:
        """The same batch, delivered again on purpose: nothing is recorded."""
        return replace(self, batch=replace(self.batch, is_replay=True), recorded=[])

    def backwards(self) -> Self:
        """The same batch, last part first."""
        return replace(self, parts=self.parts[::-1])


@dataclass(kw_only=True)
class StagedHistory:
    """A table of the columns ``id``, ``word`` and ``number``; ``id`` is its identity.

    Attributes:
        schema: of the next batch.
        next_number: of the next batch.
        hidden: columns that a destination is not to show.
        rows: expected after all batches, by ``id``.
        changes: all since the last load, with the columns of their batches.
        field_ids: of the columns by dotted name.
        defaulted: names of columns with an initial default.
        clock: when each commit is made current, in milliseconds; it may go back.
    """

    origin: Origin = ORIGIN
    next_number: int = 0
    identity: tuple[str, ...] = ("id",)
    hidden: tuple[str, ...] = ()
    schema: pa.Schema = FLIGHTS
    rows: dict[int, Row] = field(default_factory=dict)
    changes: list[Row] = field(default_factory=list)
    field_ids: dict[str, int] = field(init=False)
    defaulted: frozenset[str] = frozenset()
    clock: Iterator[int] = field(default_factory=partial(count, _START_MS, 1000))
    _ids: Iterator[int] = field(default_factory=partial(count, 1))
    _snapshots: int = 0
    _now_ms: int = _START_MS

    def __post_init__(self) -> None:
        self.field_ids = {name: next(self._ids) for name in _dotted(self.schema)}

    @property
    def shown(self) -> pa.Schema:
        """The columns that a destination is to show."""
        return pa.schema([column for column in self.schema if column.name not in self.hidden])

    def load(self, rows: Mapping[int, Row], *, batches: int = 1) -> list[StagedBatch]:
        """Begin with a load of these rows, in so many batches, which replaces what was there."""
        self.rows, self.changes = {}, []
        shares = [{key: row for key, row in rows.items() if key % batches == share} for share in range(batches)]
        return [self._batch([share], place=(number == 0, number == batches - 1)) for number, share in enumerate(shares)]

    def change(self, *steps: Step) -> StagedBatch:
        """The batch of these commits, or an empty one."""
        return self._batch(steps)

    def evolve(
        self, schema: pa.Schema, *, renamed: Mapping[str, str] = MappingProxyType({}), new: Row = MappingProxyType({})
    ) -> None:
        """Give the table other columns, which keep their field ids and values.

        Args:
            renamed: dotted names from before, by new name.
            new: columns that have nothing to do with one of that name from before, with the values of existing rows:
                initial defaults. A column whose name was not there is new anyway, and null in existing rows.
        """
        before = {name: renamed.get(name, name) for name in _dotted(schema) if name not in new}
        kept = {name: self.field_ids[old] for name, old in before.items() if old in self.field_ids}
        self.field_ids = {name: kept[name] if name in kept else next(self._ids) for name in _dotted(schema)}
        filled = {name for name, value in new.items() if value is not None}
        self.defaulted = frozenset((self.defaulted & kept.keys()) | filled)
        self.schema = schema
        self.rows = {
            key: {
                each.name: _moved(row.get(before[each.name]), each.type, each.name, before)
                if each.name in before
                else new[each.name]
                for each in schema
            }
            for key, row in self.rows.items()
        }

    def _batch(self, steps: Sequence[Step], *, place: tuple[bool, bool] | None = None) -> StagedBatch:
        number, after = self.next_number, self._snapshots
        begins_anew, ends_load = place or (False, False)
        self.next_number += 1
        # All batches of a load end at its snapshot.
        self._snapshots += begins_anew or place is None
        made = [change for ordinal, step in enumerate(steps) for change in self._apply(step, ordinal, number)]
        self.changes += made
        batch = ProvenBatch(
            origin=self.origin,
            batch_number=number,
            after_snapshot_id=None if begins_anew else _FIRST_SNAPSHOT_ID + after,
            up_to_snapshot_id=_FIRST_SNAPSHOT_ID + self._snapshots,
            load_stop=None if place in (None, (True, True)) else number + 1,
            begins_anew=begins_anew,
            is_load=place is not None,
            ends_load=ends_load,
            rows=len(made),
            counts=Counter(change[ChangeColumns.TYPE].lower() for change in made),
            schema=ChangeColumns.schema(self.schema, with_batch=True),
            identity=self.identity,
            selected=tuple(self.shown.names),
            field_ids=dict(self.field_ids),
            defaulted=self.defaulted,
            hash_key=RowHashes.new_key(),
            log=tuple(
                self._log(
                    steps,
                    StepKind.COMMIT if place is None else StepKind.INITIAL,
                    goes_on=place is not None and not begins_anew,
                )
            ),
        )
        return StagedBatch(batch=batch, parts=tuple(_parts(batch.schema, made)))

    def _log(self, steps: Sequence[Step], kind: StepKind, *, goes_on: bool) -> Iterator[RecordedStep]:
        for ordinal in range(len(steps)):
            self._now_ms = self._now_ms if goes_on else next(self.clock)
            yield RecordedStep.of(
                kind,
                [_FIRST_SNAPSHOT_ID + self._snapshots],
                timestamp_ms=self._now_ms,
                change_ordinal=ordinal,
                made_current_at_ms=self._now_ms,
            )

    def _key(self, row: Row) -> list[Any]:
        """A key that changes is another row's."""
        keys = []
        for name in self.identity:
            value: Any = row
            for each in name.split("."):
                value = None if value is None else value[each]
            keys.append(value)
        return keys

    def _apply(self, step: Step, ordinal: int, number: int) -> Iterator[Row]:
        for key, values in step.items():
            old = self.rows.pop(key, None)
            new = None if values is None else {**dict.fromkeys(self.schema.names), **values, "id": key}
            if new is not None:
                self.rows[key] = new
            if old == new:
                continue
            is_update = old and new and self._key(old) == self._key(new)
            kinds = ("UPDATE_BEFORE", "UPDATE_AFTER") if is_update else ("DELETE", "INSERT")
            for kind, row in zip(kinds, (old, new), strict=True):
                if row is not None:
                    yield {
                        ChangeColumns.BATCH: number,
                        ChangeColumns.TYPE: kind,
                        ChangeColumns.ORDINAL: ordinal,
                        ChangeColumns.SNAPSHOT_ID: _FIRST_SNAPSHOT_ID + self._snapshots,
                        ChangeColumns.TIMESTAMP: _START + timedelta(seconds=self._snapshots, microseconds=ordinal + 1),
                        **row,
                    }


def _dotted(fields: Iterable[pa.Field]) -> Iterator[str]:
    """The names of columns and of the fields inside them, as Iceberg has them."""
    for each in fields:
        yield each.name
        kind, inside = each.type, list[pa.Field]()
        if pa.types.is_struct(kind):
            inside = [*kind]
        elif pa.types.is_map(kind):
            inside = [kind.key_field.with_name("key"), kind.item_field.with_name("value")]
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            inside = [kind.value_field.with_name("element")]
        yield from (f"{each.name}.{name}" for name in _dotted(inside))


def _moved(value: Any, kind: pa.DataType, name: str, before: Mapping[str, str]) -> Any:
    """A value with the fields that its type has now, at a dotted name; ``before`` has the names that they had."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        names = {each.name: f"{name}.{each.name}" for each in kind}
        above = f"{before.get(name, name)}."
        found = {each: value.get(before.get(path, "").removeprefix(above)) for each, path in names.items()}
        return {each.name: _moved(found[each.name], each.type, names[each.name], before) for each in kind}
    if pa.types.is_map(kind):
        return [(key, _moved(item, kind.item_type, f"{name}.value", before)) for key, item in value]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_moved(each, kind.value_type, f"{name}.element", before) for each in value]
    return value


def through_json(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A document as another process reads it."""
    try:
        read: dict[str, Any] = json.loads(json.dumps(dict(document)))
    except (TypeError, ValueError) as error:
        raise NotConformingError(f"{name} is {document}; expected values of JSON only") from error
    return read


def _parts(schema: pa.Schema, changes: Sequence[Row]) -> Iterator[StagedPart]:
    """Parts 0, 2, 4, as no sink may rely on numbers without gaps; empty ones are left out."""
    first_row = 0
    for number in range(_PARTS):
        # A stable sort by key: changes of one key are next to each other, in the order of their ordinals.
        rows = sorted(
            (change for change in changes if change["id"] % _PARTS == number), key=lambda change: change["id"]
        )
        if rows:
            # Two batches of rows, so that a sink that reads only the first one is found.
            table = pa.Table.from_pylist([dict(row) for row in rows], schema=schema)
            read = partial(iter, table.to_batches(max_chunksize=(len(rows) + 1) // 2))
            yield StagedPart(number=2 * number, first_row=first_row, rows=len(rows), size_bytes=table.nbytes, read=read)
            first_row += len(rows)
