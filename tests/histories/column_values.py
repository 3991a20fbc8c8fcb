"""Values of few kinds for every type: small numbers choose them, so that rows collide, repeat and come back."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from itertools import count
from typing import Any, Final

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
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
    TimestamptzType,
    TimeType,
    UUIDType,
)

__all__ = ["PROMOTIONS", "TYPES", "Seeds", "named_row", "type_named", "value_of"]

Seeds = Sequence[int | None]
"""A row: what chooses the value of each column; None is null, where the column allows it."""

_ids = count(1000)

TYPES: Final[Mapping[str, Callable[[], IcebergType]]] = {
    "boolean": BooleanType,
    "int": IntegerType,
    "long": LongType,
    "float": FloatType,
    "double": DoubleType,
    "decimal": lambda: DecimalType(9, 2),
    "date": DateType,
    "time": TimeType,
    "timestamp": TimestampType,
    "timestamptz": TimestamptzType,
    "string": StringType,
    "binary": BinaryType,
    "fixed": lambda: FixedType(2),
    "uuid": UUIDType,
    "struct": lambda: StructType(_field("x", IntegerType()), _field("y", StringType())),
    "nested": lambda: StructType(_field("p", StructType(_field("q", IntegerType()))), _field("r", DoubleType())),
    "list": lambda: ListType(next(_ids), IntegerType(), element_required=False),
    "structs": lambda: ListType(next(_ids), TYPES["struct"](), element_required=False),
    "map": lambda: MapType(next(_ids), StringType(), next(_ids), IntegerType(), value_required=False),
}

PROMOTIONS: Final[Mapping[str, IcebergType]] = {
    "int": LongType(),
    "float": DoubleType(),
    "decimal(9, 2)": DecimalType(20, 2),
    "decimal(20, 2)": DecimalType(38, 2),
}

_EPOCH: Final = dt.datetime(1970, 1, 1)
_TIMES: Final = [0, 1, -1, 1_700_000_000_000_000, 1_700_000_000_000_001]
_VALUES: Final[Mapping[type[IcebergType], Sequence[Any]]] = {
    BooleanType: [True, False],
    IntegerType: [0, 1, 2, 3, -1, 2**31 - 1, -(2**31), 4],
    LongType: [0, 1, 2, 3, -1, 2**40, -(2**63), 4],
    FloatType: [0.0, -0.0, 1.5, float("nan"), 2.5, float("-inf")],
    DoubleType: [0.0, -0.0, 1.5, float("nan"), 5e-324, float("inf")],
    DateType: [dt.date(1970, 1, 1) + dt.timedelta(days=days) for days in (0, 1, -1, 20_000)],
    TimeType: [dt.time(0, 0), dt.time(23, 59, 59, 999_999), dt.time(0, 0, 0, 1)],
    TimestampType: [_EPOCH + dt.timedelta(microseconds=micros) for micros in _TIMES],
    TimestamptzType: [_EPOCH.replace(tzinfo=dt.UTC) + dt.timedelta(microseconds=micros) for micros in _TIMES],
    StringType: ["", "a", "ab", "é", "null", "a\0", "abcdefghijklmnopqrstuvwxyz", "🧊"],
    BinaryType: [b"", b"\0", b"\0\0", b"ab", b"\xff" * 17],
    FixedType: [b"\0\0", b"\0\1", b"\xff\xff"],
    # Iceberg 1.11 orders UUIDs as signed numbers when it prunes equality deletes, and so loses some of greater ones.
    UUIDType: [uuid.UUID(int=number) for number in (0, 1, 2**64, 2**126)],
}
_CENTS: Final = [0, 110, -250, 9_999_999_99, 1]


def type_named(name: str) -> IcebergType:
    """A type of `TYPES`, with field ids of its own inside."""
    return TYPES[name]()


def named_row(schema: Schema, seeds: Seeds) -> dict[str, Any]:
    """A row of the schema, by column; ``seeds`` is repeated where the schema has more columns."""
    given = seeds or [0]
    return {
        field.name: value_of(field.field_type, given[index % len(given)], required=field.required)
        for index, field in enumerate(schema.fields)
    }


def value_of(kind: IcebergType, seed: int | None, *, required: bool = False) -> Any:
    """The value of a type that a seed stands for."""
    if seed is None:
        return value_of(kind, 0) if required else None
    if isinstance(kind, StructType):
        return {
            field.name: value_of(field.field_type, _inner(seed, index), required=field.required)
            for index, field in enumerate(kind.fields)
        }
    if isinstance(kind, ListType):
        return [value_of(kind.element_type, _inner(seed, index)) for index in range(seed % 3)]
    if isinstance(kind, MapType):
        keys = [value_of(kind.key_type, (seed + index) % 5) for index in range(seed % 3)]
        return [(key, value_of(kind.value_type, _inner(seed, index))) for index, key in enumerate(keys)]
    if isinstance(kind, DecimalType):
        return Decimal(_CENTS[seed % len(_CENTS)]).scaleb(-kind.scale)
    values = _VALUES[type(kind)]
    return values[seed % len(values)]


def _inner(seed: int, index: int) -> int | None:
    return None if (seed + index) % 4 == 3 else seed + index


def _field(name: str, kind: IcebergType) -> NestedField:
    return NestedField(next(_ids), name, kind, required=False)
