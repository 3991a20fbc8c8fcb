"""Partition values as they compare with literals and bounds."""

from typing import Any

from pyiceberg.expressions.literals import literal
from pyiceberg.types import DateType, TimestampType, TimestamptzType

from icefloe.iceberg.column_range import ColumnRange, comparable
from icefloe.iceberg.data_file import Constant, constant_from_json

__all__ = ["partition_range"]


def partition_range(kind: Any, value: Constant) -> ColumnRange:
    """The range of a column or partition field that has one value in every row.

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
    """None where it does not compare: NaN, or a date of before a promotion."""
    if isinstance(kind, DateType) and isinstance(value, int):
        return value
    if isinstance(kind, TimestampType | TimestamptzType) and "T" not in str(value):
        return None
    plain = constant_from_json(kind, value)
    return None if plain != plain else comparable(literal(plain).value)
