"""Values in manifests that compare: column bounds and partition values."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Context, Decimal, Inexact, InvalidOperation
from operator import index
from struct import Struct
from typing import Any, Final
from uuid import UUID

import pyarrow as pa
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions.literals import literal
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, UnknownTransform, VoidTransform
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
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from pyiceberg.utils.decimal import unscaled_to_decimal

from icefloe.iceberg.data_file import Constant, constant_from_json, constant_to_json
from icefloe.iceberg.filters.column_range import ColumnRange, comparable
from icefloe.iceberg.schemas.table_schema import widest_types

__all__ = ["KeyTypes", "comparable_bounds", "decoded_bound", "partition_range"]


_BYTEWISE = (BinaryType, StringType)
_ORDERED = (*_BYTEWISE, DateType, DecimalType, IntegerType, LongType, TimestampType, TimestamptzType, TimeType)
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


def comparable_bounds(
    lower_bounds: Mapping[int, bytes], upper_bounds: Mapping[int, bytes], schema: Schema
) -> Mapping[int, tuple[object, object]]:
    """(lower, upper) by field id of the columns whose bounds order files, so not of floats."""
    bounds: dict[int, tuple[Any, Any]] = {}
    for field_id in lower_bounds.keys() & upper_bounds.keys() & set(schema.field_ids):
        field_type = schema.find_type(field_id)
        if isinstance(field_type, _ORDERED):
            found = decoded_bound(field_type, lower_bounds[field_id]), decoded_bound(field_type, upper_bounds[field_id])
            if None not in found:
                bounds[field_id] = found
    return bounds


def decoded_bound(field_type: PrimitiveType, bound: bytes) -> object:
    r"""A bound as a value; text and binary stay bytes, which have the same order.

    None for NaN, or if it was written in a type that does not compare: the column's type may have changed since.

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
    """The widest type of each key column, in which bounds are compared.

    Not of columns inside structs, whose nulls writers may count otherwise, nor of columns that a replaced table of that
    name had in another type.
    """
    columns = {field.field_id for schema in schemas for field in schema.fields}
    return {field_id: kind for field_id, kind in widest_types(schemas).items() if field_id in columns}


_NANOSECONDS: Final[Mapping[type[IcebergType], int]] = {
    DateType: 86_400_000_000_000, TimeType: 1000, TimestampType: 1000, TimestamptzType: 1000, TimestampNanoType: 1,
    TimestamptzNanoType: 1,
}  # fmt: skip
"""Units of the numbers that are dates and times."""
_UNITS: Final = {"ms": 1_000_000, "us": 1000, "ns": 1}
_OF_PYTHON: Final[Mapping[type, PrimitiveType]] = {
    bytes: BinaryType(), float: DoubleType(), Decimal: DecimalType(38, 0),
}  # fmt: skip
"""Types of values whose JSON is another text; others are their own JSON."""
_FLOAT: Final = Struct("<f")


def partition_types(
    specs: Mapping[int, PartitionSpec], schemas: Iterable[Schema]
) -> Mapping[int, Sequence[PrimitiveType | None]]:
    """The types of partition values by spec id, from the widest source types; None: not known.

    A replaced table may have left specs and field ids of a column in another type.
    """
    sources = widest_types(schemas)
    return {
        spec_id: [_result_type(field, sources.get(field.source_id)) for field in spec.fields]
        for spec_id, spec in specs.items()
    }


def _result_type(field: PartitionField, source: PrimitiveType | None) -> PrimitiveType | None:
    if source is None or isinstance(field.transform, UnknownTransform | VoidTransform):
        return None
    found = field.transform.result_type(source)
    if isinstance(found, IntegerType) and not isinstance(field.transform, IdentityTransform):
        # PyIceberg truncates the smallest ints, and counts the hours of far years, beyond 32 bits.
        return LongType()
    return found if isinstance(found, PrimitiveType) else None


def partition_value(kind: PrimitiveType | None, written: pa.DataType, value: Any) -> Constant:
    """A partition value in its one form, whatever type its manifest gives it.

    >>> partition_value(DateType(), pa.int32(), 17486), partition_value(DateType(), pa.date32(), 17486)
    ('2017-11-16', '2017-11-16')
    """
    if value is None:
        return None
    if kind is None:
        return constant_to_json(_OF_PYTHON.get(type(value), LongType()), value)
    return constant_to_json(kind, _fitted(kind, written, value))


def _nanoseconds(written: pa.DataType) -> int | None:
    """The unit of numbers of a type; None for plain numbers."""
    if pa.types.is_date(written):
        return _NANOSECONDS[DateType]
    return _UNITS[written.unit] if pa.types.is_temporal(written) else None


def _fitted(kind: PrimitiveType, written: pa.DataType, value: Any) -> Any:
    unit = _NANOSECONDS.get(type(kind))
    if unit is not None:
        # A number without a unit has that of the result. A date becomes the timestamp it was promoted to.
        number, rest = divmod(index(value) * (_nanoseconds(written) or unit), unit)
        return _whole(number, IntegerType if isinstance(kind, DateType) else LongType, rest)
    match kind:
        case IntegerType() | LongType():
            return _whole(index(value), type(kind))
        case FloatType():
            # The nearest float, as another manifest may have it.
            return _FLOAT.unpack(_FLOAT.pack(value * 1.0))[0]
        case DoubleType():
            return value * 1.0
        case DecimalType():
            return _decimal(kind, value)
        case BooleanType():
            return bool((False, True).index(value))
        case StringType():
            return value if isinstance(value, str) else str(value, "utf-8")
        case UUIDType():
            return UUID(bytes=value) if isinstance(value, bytes) else UUID(str(value))
        case BinaryType() | FixedType():
            return value.bytes if isinstance(value, UUID) else value.encode() if isinstance(value, str) else value
    return value


def _whole(number: int, limits: type[IntegerType | LongType], rest: int = 0) -> int:
    if rest or not limits.min <= number <= limits.max:
        raise ValueError
    return number


def _decimal(kind: DecimalType, value: Any) -> Decimal:
    if isinstance(value, bytes):
        value = int.from_bytes(value, "big", signed=True)
    number = unscaled_to_decimal(value, kind.scale) if isinstance(value, int) else Decimal(value)
    return number.quantize(
        unscaled_to_decimal(1, kind.scale), context=Context(prec=kind.precision, traps=[Inexact, InvalidOperation])
    )


def partition_range(kind: object, value: Constant) -> ColumnRange:
    """The range of a column or partition field with one value in every row.

    >>> partition_range(DateType(), "1970-01-08").lower, partition_range(DateType(), None).may_hold_values
    (7, False)
    """
    if value is None:
        return ColumnRange(may_hold_values=False)
    known = _comparable_value(kind, value)
    if known is None:
        return ColumnRange(may_hold_nulls=False)
    return ColumnRange(lower=known, upper=known, may_hold_nulls=False, is_one_value=True)


def _comparable_value(kind: Any, value: Constant) -> Any:
    """None for NaN, and for a date of a column of unknown types."""
    if isinstance(kind, DateType) and isinstance(value, int):
        return value
    if isinstance(kind, TimestampType | TimestamptzType) and "T" not in str(value):
        return None
    plain = constant_from_json(kind, value)
    return None if plain != plain else comparable(literal(plain).value)
