"""Column bounds of data files, as values that compare."""

from collections.abc import Collection, Mapping
from typing import Any, Final, Protocol

from pyiceberg.conversions import from_bytes
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from icefloe.iceberg.schemas.covering_schema import widest_types

__all__ = ["Bounded", "KeyTypes", "comparable_bounds", "decoded_bound"]

_DECODED = (DateType, DecimalType, IntegerType, LongType, TimestampType, TimestamptzType, TimeType)
_BYTEWISE = (BinaryType, StringType)
_WIDTHS: Final[tuple[tuple[Any, Mapping[int, PrimitiveType]], ...]] = (
    (IntegerType | LongType, {4: IntegerType(), 8: LongType()}),
    (FloatType | DoubleType, {4: FloatType(), 8: DoubleType()}),
    (DateType, {4: DateType()}),
    (TimestampType | TimestamptzType | TimeType, {8: LongType()}),
    (BooleanType, {1: BooleanType()}),
)
"""Types that compare with each other, and for each length of a bound in bytes the type it was written in."""


KeyTypes = Mapping[int, PrimitiveType]
"""By field id."""


class Bounded(Protocol):
    """A file with column bounds in Iceberg's binary form, in the type each column had when the file was written."""

    @property
    def lower_bounds(self) -> Mapping[int, bytes]:
        """By field id."""

    @property
    def upper_bounds(self) -> Mapping[int, bytes]:
        """By field id."""


def comparable_bounds(file: Bounded, schema: Schema) -> Mapping[int, tuple[object, object]]:
    """(lower, upper) by field id for the columns whose bounds order files; floats, with their NaNs, are left out.

    Args:
        file: the file with the bounds.
        schema: the schema with the wanted columns.
    """
    bounds: dict[int, tuple[Any, Any]] = {}
    for field_id in file.lower_bounds.keys() & file.upper_bounds.keys() & set(schema.field_ids):
        field_type = schema.find_type(field_id)
        lower, upper = file.lower_bounds[field_id], file.upper_bounds[field_id]
        if isinstance(field_type, _BYTEWISE):
            bounds[field_id] = (lower, upper)
        elif isinstance(field_type, _DECODED):
            decoded = decoded_bound(field_type, lower), decoded_bound(field_type, upper)
            if None not in decoded:
                bounds[field_id] = decoded
    return bounds


def decoded_bound(field_type: PrimitiveType, bound: bytes) -> object:
    r"""A bound as a value; text and binary stay bytes, which have the same order.

    Args:
        field_type: current type of the column. It may have been widened since the file was written. After a rollback,
            it may have been wider then.
        bound: in the spec's binary single-value form.

    Returns:
        None if it was written in a type that does not compare with the column's type, or is NaN.

    >>> decoded_bound(LongType(), b"\x07\0\0\0"), decoded_bound(TimestampType(), b"\x07\0\0\0")
    (7, None)
    """
    if isinstance(field_type, _BYTEWISE):
        return bound
    if isinstance(field_type, DecimalType):
        return from_bytes(field_type, bound)
    # A bound has the width of the type at the time of writing: 4 bytes were an int, whatever the column is now.
    widths = next((widths for kinds, widths in _WIDTHS if isinstance(field_type, kinds)), {})
    written = widths.get(len(bound))
    value = None if written is None else from_bytes(written, bound)
    return None if value != value else value


def key_types(schemas: Collection[Schema]) -> KeyTypes:
    """The types in which the bounds of key columns are compared: the widest one of each column.

    Columns inside structs are left out: writers may or may not count the nulls of the struct as nulls of the column.
    So are columns that another table of that name, which this one replaced, had in another type.
    """
    columns = {field.field_id for schema in schemas for field in schema.fields}
    return {field_id: kind for field_id, kind in widest_types(schemas).items() if field_id in columns}
