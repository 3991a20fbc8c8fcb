"""Values in manifests that compare, column bounds and partition values, and filters that they rule out."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact, InvalidOperation
from operator import index
from struct import Struct
from typing import Any, Final
from uuid import UUID

from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundEqualTo,
    BoundGreaterThan,
    BoundGreaterThanOrEqual,
    BoundIn,
    BoundIsNull,
    BoundLessThan,
    BoundLessThanOrEqual,
    BoundLiteralPredicate,
    BoundNotEqualTo,
    BoundNotIn,
    BoundSetPredicate,
    BoundStartsWith,
    Or,
)
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
from icefloe.iceberg.schemas.table_schema import widest_types

__all__ = ["ColumnRange", "KeyTypes", "comparable_bounds", "decoded_bound", "may_match_ranges", "partition_range"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRange:
    """Bounds of the values of one column; by default nothing is known.

    Attributes:
        lower: no value but null and NaN is below it; None if unknown. Text as UTF-8 bytes.
        upper: none but these is above it; None if unknown.
        is_one_value: no value but null differs from ``lower``.
    """

    lower: Any = None
    upper: Any = None
    may_hold_nulls: bool = True
    may_hold_values: bool = True
    is_one_value: bool = False


_UNKNOWN: Final = ColumnRange()
_MOST_VALUES: Final = 200
"""Longer lists of ``in`` rule out no file: to look through them takes longer."""


def may_match_ranges(expression: BooleanExpression, ranges: Mapping[int, ColumnRange]) -> bool:
    """False only if a bound expression without ``not`` is true of no row.

    Args:
        ranges: by field id; a column without one may hold anything.

    >>> from pyiceberg.expressions import LessThan
    >>> from pyiceberg.schema import Schema
    >>> from pyiceberg.types import LongType, NestedField
    >>> below = LessThan("a", 5).bind(Schema(NestedField(1, "a", LongType())))
    >>> [may_match_ranges(below, ranges) for ranges in ({1: ColumnRange(lower=5)}, {1: ColumnRange(lower=4)}, {})]
    [False, True, True]
    """
    match expression:
        case And():
            return may_match_ranges(expression.left, ranges) and may_match_ranges(expression.right, ranges)
        case Or():
            return may_match_ranges(expression.left, ranges) or may_match_ranges(expression.right, ranges)
        case AlwaysTrue() | AlwaysFalse():
            return isinstance(expression, AlwaysTrue)
    predicate: Any = expression
    known = ranges.get(predicate.term.ref().field.field_id, _UNKNOWN)
    if isinstance(predicate, BoundIsNull):
        return known.may_hold_nulls
    return known.may_hold_values and _may_hold(predicate, known.lower, known.upper, is_one=known.is_one_value)


def comparable(value: Any) -> Any:
    """A literal's value: text by its UTF-8 bytes."""
    return value.encode() if isinstance(value, str) else value


def _may_hold(predicate: Any, lower: Any, upper: Any, *, is_one: bool) -> bool:
    match predicate:
        case BoundSetPredicate() if len(predicate.value_set) <= _MOST_VALUES:
            values = [comparable(value) for value in predicate.value_set]
        case BoundLiteralPredicate():
            values = [comparable(predicate.literal.value)]
        case _:
            return True
    value = values[0]
    match predicate:
        case BoundIn() | BoundEqualTo():
            return any((lower is None or lower <= each) and (upper is None or each <= upper) for each in values)
        # Equal bounds would not be enough to rule a file out: NaN is within no bounds, and differs from every value.
        case BoundNotIn() | BoundNotEqualTo():
            return not (is_one and lower in values)
        case BoundLessThan():
            return lower is None or lower < value
        case BoundLessThanOrEqual():
            return lower is None or lower <= value
        case BoundGreaterThan():
            return upper is None or upper > value
        case BoundGreaterThanOrEqual():
            return upper is None or upper >= value
        case BoundStartsWith():
            size = len(value)
            return (lower is None or lower[:size] <= value) and (upper is None or upper[:size] >= value)
    # Every text between two texts with the same beginning has that beginning too.
    return lower is None or upper is None or not (lower.startswith(value) and upper.startswith(value))


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


def decoded_bound(field_type: PrimitiveType, bound: bytes | None) -> object:
    r"""A bound as a value; text and binary stay bytes, which have the same order.

    None for no bound, for NaN, or if it was written in a type that does not compare: the column's type may have changed
    since.

    >>> decoded_bound(LongType(), b"\x07\0\0\0"), decoded_bound(TimestampType(), b"\x07\0\0\0")
    (7, None)
    """
    if bound is None or isinstance(field_type, _BYTEWISE):
        return bound
    if isinstance(field_type, DecimalType):
        return from_bytes(field_type, bound)
    # A bound has the width of the type at the time of writing: 4 bytes were an int, whatever the column is now.
    widths = next((widths for kinds, widths in _WIDTHS if isinstance(field_type, kinds)), {})
    written = widths.get(len(bound))
    value = None if written is None else from_bytes(written, bound)
    return None if value != value else value


def key_types(schemas: Collection[Schema]) -> KeyTypes:
    """The widest type of each top-level key column, in which bounds are compared."""
    # Not inside structs, whose nulls writers may count otherwise. None that a replaced table had in another type.
    columns = {field.field_id for schema in schemas for field in schema.fields}
    return {field_id: kind for field_id, kind in widest_types(schemas).items() if field_id in columns}


_NANOSECONDS: Final[Mapping[type[IcebergType], int]] = {
    DateType: 86_400_000_000_000, TimeType: 1000, TimestampType: 1000, TimestamptzType: 1000, TimestampNanoType: 1,
    TimestamptzNanoType: 1,
}  # fmt: skip
"""Units of the numbers that are dates and times."""
_UNITS: Final = {
    "date": 86_400_000_000_000, "time-micros": 1000, "timestamp-micros": 1000, "timestamp-nanos": 1,
    "local-timestamp-micros": 1000, "local-timestamp-nanos": 1,
}  # fmt: skip
"""The same of Avro's logical types."""
_OF_PYTHON: Final[Mapping[type, PrimitiveType]] = {
    bytes: BinaryType(), float: DoubleType(), Decimal: DecimalType(38, 0),
}  # fmt: skip
"""Types of values whose JSON is another text; others are their own JSON."""
_FLOAT: Final = Struct("<f")


def partition_types(
    specs: Mapping[int, PartitionSpec], schemas: Iterable[Schema]
) -> Mapping[int, Sequence[PrimitiveType | None]]:
    """The types of partition values by spec id, from the widest source types; None: not known."""
    # A replaced table may have left specs and field ids of a column in another type.
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


def partition_value(kind: PrimitiveType | None, written: str, value: Any) -> Constant:
    """A partition value in its one form, whatever kind of Avro type its manifest gives it.

    >>> partition_value(DateType(), "number", 17486), partition_value(DateType(), "date", 17486)
    ('2017-11-16', '2017-11-16')
    """
    if value is None:
        return None
    if kind is None:
        return constant_to_json(_OF_PYTHON.get(type(value), LongType()), value)
    return constant_to_json(kind, _fitted(kind, written, value))


def _fitted(kind: PrimitiveType, written: str, value: Any) -> Any:
    unit = _NANOSECONDS.get(type(kind))
    if unit is not None:
        # A number without a unit has that of the result. A date becomes the timestamp it was promoted to.
        number, rest = divmod(index(value) * _UNITS.get(written, unit), unit)
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
