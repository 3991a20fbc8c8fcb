"""Values and types as Spark's SQL writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    IcebergType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from histories.column_values import TYPES

__all__ = ["SQL_TYPES", "literal", "quoted", "values"]

SQL_TYPES: Final = sorted(TYPES.keys() - {"fixed", "time", "uuid"})
"""The types of `column_values.TYPES` that Spark can write."""

_NAMES: Final[Mapping[type[IcebergType], str]] = {
    LongType: "bigint",
    TimestampType: "timestamp_ntz",
    TimestamptzType: "timestamp",
}


def quoted(name: str) -> str:
    """A column's name."""
    return f"`{name}`"


def values(schema: Schema, rows: Sequence[Mapping[str, Any]]) -> str:
    """``SELECT``s of the rows, in the order of the columns."""
    return " UNION ALL ".join(f"SELECT {', '.join(_named(schema, row))}" for row in rows)


def literal(kind: IcebergType, value: Any) -> str:
    """An expression of exactly that type and value."""
    return f"CAST({_expression(kind, value)} AS {_sql_type(kind)})"


def _named(schema: Schema, row: Mapping[str, Any]) -> list[str]:
    return [f"{literal(field.field_type, row[field.name])} AS {quoted(field.name)}" for field in schema.fields]


def _expression(kind: IcebergType, value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(kind, StructType):
        fields = (f"'{f.name}', {literal(f.field_type, value[f.name])}" for f in kind.fields)
        return f"named_struct({', '.join(fields)})"
    if isinstance(kind, ListType):
        return f"array({', '.join(literal(kind.element_type, each) for each in value)})"
    if isinstance(kind, MapType):
        pairs = (f"{literal(kind.key_type, key)}, {literal(kind.value_type, each)}" for key, each in value)
        return f"map({', '.join(pairs)})"
    if isinstance(kind, StringType):
        return f"X'{value.encode().hex()}'"
    if isinstance(kind, BinaryType):
        return f"X'{value.hex()}'"
    return str(value) if isinstance(value, bool) else f"'{value}'"


def _sql_type(kind: IcebergType) -> str:
    if isinstance(kind, StructType):
        return f"struct<{', '.join(f'{quoted(f.name)}: {_sql_type(f.field_type)}' for f in kind.fields)}>"
    if isinstance(kind, ListType):
        return f"array<{_sql_type(kind.element_type)}>"
    if isinstance(kind, MapType):
        return f"map<{_sql_type(kind.key_type)}, {_sql_type(kind.value_type)}>"
    return _NAMES.get(type(kind), str(kind))
