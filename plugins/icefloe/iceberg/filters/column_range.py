"""The known range of a column's values, and filters that it rules out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

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

__all__ = ["ColumnRange", "comparable", "may_match_ranges"]


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
