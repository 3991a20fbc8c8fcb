"""Hypothesis strategies: a schema, rows of it, and a later schema of the table with the rows as that one sees them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
)

LEAVES: Mapping[type[IcebergType], tuple[IcebergType, st.SearchStrategy[Any]]] = {
    IntegerType: (IntegerType(), st.integers(-(2**31), 2**31 - 1)),
    FloatType: (FloatType(), st.floats(width=32, allow_nan=False)),
    DecimalType: (DecimalType(9, 2), st.decimals(-1000, 1000, places=2)),
    DateType: (DateType(), st.dates(date(1900, 1, 1), date(2200, 1, 1))),
    StringType: (StringType(), st.text(max_size=3)),
    BinaryType: (BinaryType(), st.binary(max_size=3)),
    BooleanType: (BooleanType(), st.booleans()),
}
PROMOTED: Mapping[type[IcebergType], IcebergType] = {
    IntegerType: LongType(),
    FloatType: DoubleType(),
    DecimalType: DecimalType(20, 2),
    DateType: TimestampType(),
}


@dataclass(frozen=True)
class Evolution:
    """A table before and after.

    Attributes:
        before: the schema its file was written with.
        rows: of the file.
        after: the schema it is read with.
    """

    before: Schema
    rows: Sequence[Mapping[str, Any]]
    after: Schema

    @property
    def expected(self) -> list[dict[str, Any]]:
        """The rows as the later schema sees them, in plain Python."""
        return [_project_struct(row, self.before.as_struct(), self.after.as_struct()) for row in self.rows]


@st.composite
def evolutions(draw: st.DrawFn) -> Evolution:
    ids = iter(range(1, 10_000))
    before = StructType(*draw(_fields(ids, depth=3)))
    rows = draw(st.lists(_values(before), max_size=8))
    after = _evolved(draw, before, ids)
    return Evolution(before=Schema(*before.fields), rows=rows, after=Schema(*after.fields))


@st.composite
def _fields(draw: st.DrawFn, ids: Any, depth: int) -> list[NestedField]:
    count = draw(st.integers(1, 3))
    return [
        NestedField(next(ids), f"f{place}", draw(_types(ids, depth)), required=draw(st.booleans()))
        for place in range(count)
    ]


@st.composite
def _types(draw: st.DrawFn, ids: Any, depth: int) -> IcebergType:
    kind = draw(st.sampled_from(["leaf", "struct", "list", "map"] if depth else ["leaf"]))
    if kind == "struct":
        return StructType(*draw(_fields(ids, depth - 1)))
    if kind == "list":
        return ListType(next(ids), draw(_types(ids, depth - 1)), element_required=draw(st.booleans()))
    if kind == "map":
        value = draw(_types(ids, depth - 1))
        return MapType(next(ids), StringType(), next(ids), value, value_required=draw(st.booleans()))
    return draw(st.sampled_from(list(LEAVES.values())))[0]


def _values(kind: IcebergType) -> st.SearchStrategy[Any]:
    match kind:
        case StructType():
            return st.fixed_dictionaries({f.name: _maybe(f.field_type, required=f.required) for f in kind.fields})
        case ListType():
            return st.lists(_maybe(kind.element_type, required=kind.element_required), max_size=3)
        case MapType():
            values = _maybe(kind.value_type, required=kind.value_required)
            return st.dictionaries(st.text(max_size=2), values, max_size=3).map(lambda entries: list(entries.items()))
    return LEAVES[type(kind)][1]


def _maybe(kind: IcebergType, *, required: bool) -> st.SearchStrategy[Any]:
    return _values(kind) if required else st.none() | _values(kind)


def _evolved(draw: st.DrawFn, kind: IcebergType, ids: Any) -> Any:
    match kind:
        case StructType():
            kept = [field for field in kind.fields if draw(st.integers(0, 3))]
            fields = [_evolved_field(draw, field, ids) for field in kept]
            for _ in range(draw(st.integers(0 if fields else 1, 2))):  # Parquet has no struct without fields
                name = draw(st.sampled_from(["f0", "f1", "f2", "added"]))
                fields.append(NestedField(next(ids), name, draw(_types(ids, 2)), required=False))
            unique = {field.name: field for field in fields}
            return StructType(*draw(st.permutations(list(unique.values()))))
        case ListType():
            return ListType(kind.element_id, _evolved(draw, kind.element_type, ids), kind.element_required)
        case MapType():
            value = _evolved(draw, kind.value_type, ids)
            return MapType(kind.key_id, kind.key_type, kind.value_id, value, kind.value_required)
    return PROMOTED.get(type(kind), kind) if draw(st.booleans()) else kind


def _evolved_field(draw: st.DrawFn, field: NestedField, ids: Any) -> NestedField:
    name = f"r{field.field_id}" if draw(st.booleans()) else field.name
    required = field.required and draw(st.booleans())
    return NestedField(field.field_id, name, _evolved(draw, field.field_type, ids), required=required)


def _project(value: Any, before: IcebergType, after: IcebergType) -> Any:
    if value is None:
        return None
    match after:
        case StructType():
            return _project_struct(value, before, after)
        case ListType():
            return [_project(element, before.element_type, after.element_type) for element in value]
        case MapType():
            return [(key, _project(item, before.value_type, after.value_type)) for key, item in value]
        case TimestampType():
            return datetime(value.year, value.month, value.day)
        case DecimalType():
            return Decimal(value)
    return value


def _project_struct(value: Mapping[str, Any], before: StructType, after: StructType) -> dict[str, Any]:
    by_id = {field.field_id: field for field in before.fields}
    row: dict[str, Any] = {}
    for field in after.fields:
        old = by_id.get(field.field_id)
        row[field.name] = None if old is None else _project(value[old.name], old.field_type, field.field_type)
    return row


def with_relaxed_file(evolution: Evolution) -> Evolution:
    """Every field of the file is optional, as writers without Iceberg's knowledge make it."""
    document = evolution.before.model_dump_json()
    for key in ("required", "element-required", "value-required"):
        document = document.replace(f'"{key}":true', f'"{key}":false')
    return replace(evolution, before=Schema.model_validate_json(document))
