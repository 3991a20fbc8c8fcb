"""The known range of a column's values, and filters that it rules out."""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

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
    BoundNotEqualTo,
    BoundNotIn,
    BoundNotStartsWith,
    BoundStartsWith,
    Or,
)

__all__ = ["ColumnRange", "comparable", "range_condition"]


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


RangeCondition = Callable[[Mapping[int, ColumnRange]], bool]
"""True if a row may match, given the ranges of columns by field id; a column without a range may hold anything."""

_UNKNOWN = ColumnRange()


def range_condition(expression: BooleanExpression) -> RangeCondition:
    """False only if a bound expression without ``not`` is true of no row.

    >>> from pyiceberg.expressions import LessThan
    >>> from pyiceberg.schema import Schema
    >>> from pyiceberg.types import LongType, NestedField
    >>> may_match = range_condition(LessThan("a", 5).bind(Schema(NestedField(1, "a", LongType()))))
    >>> may_match({1: ColumnRange(lower=5)}), may_match({1: ColumnRange(lower=4)}), may_match({})
    (False, True, True)
    """
    match expression:
        case And():
            left, right = range_condition(expression.left), range_condition(expression.right)
            return lambda ranges: left(ranges) and right(ranges)
        case Or():
            left, right = range_condition(expression.left), range_condition(expression.right)
            return lambda ranges: left(ranges) or right(ranges)
        case AlwaysTrue() | AlwaysFalse():
            return lambda _: isinstance(expression, AlwaysTrue)
    return _leaf(expression)


def comparable(value: Any) -> Any:
    """A literal's value: text by its UTF-8 bytes."""
    return value.encode() if isinstance(value, str) else value


def _leaf(predicate: Any) -> RangeCondition:
    field_id = predicate.term.ref().field.field_id
    if isinstance(predicate, BoundIsNull):
        return lambda ranges: ranges.get(field_id, _UNKNOWN).may_hold_nulls
    holds = _of_values(predicate)

    def may_match(ranges: Mapping[int, ColumnRange]) -> bool:
        known = ranges.get(field_id, _UNKNOWN)
        return known.may_hold_values and holds(known)

    return may_match


def _of_values(predicate: Any) -> Callable[[ColumnRange], bool]:
    match predicate:
        case BoundIn():
            values = sorted(map(comparable, predicate.value_set))
            return lambda known: _any_within(values, known)
        # Equal bounds would not be enough to rule a file out: NaN is within no bounds, and differs from every value.
        case BoundNotIn():
            excluded = {comparable(value) for value in predicate.value_set}
            return lambda known: not (known.is_one_value and known.lower in excluded)
        case BoundStartsWith() | BoundNotStartsWith():
            return _of_prefix(predicate)
    value = comparable(predicate.literal.value) if hasattr(predicate, "literal") else None
    match predicate:
        case BoundEqualTo():
            return lambda known: _any_within([value], known)
        case BoundNotEqualTo():
            return lambda known: not (known.is_one_value and known.lower == value)
        case BoundLessThan():
            return lambda known: known.lower is None or known.lower < value
        case BoundLessThanOrEqual():
            return lambda known: known.lower is None or known.lower <= value
        case BoundGreaterThan():
            return lambda known: known.upper is None or known.upper > value
        case BoundGreaterThanOrEqual():
            return lambda known: known.upper is None or known.upper >= value
    return lambda _: True


def _any_within(values: list[Any], known: ColumnRange) -> bool:
    # The smallest value that is not below the range is inside of it, or no value is.
    first = 0 if known.lower is None else bisect_left(values, known.lower)
    return first < len(values) and (known.upper is None or values[first] <= known.upper)


def _of_prefix(predicate: Any) -> Callable[[ColumnRange], bool]:
    prefix = comparable(predicate.literal.value)
    if isinstance(predicate, BoundStartsWith):
        return lambda known: (
            (known.lower is None or known.lower[: len(prefix)] <= prefix)
            and (known.upper is None or known.upper[: len(prefix)] >= prefix)
        )
    # Every text between two texts with the same beginning has that beginning too.
    return lambda known: (
        not (
            known.lower is not None
            and known.upper is not None
            and known.lower.startswith(prefix)
            and known.upper.startswith(prefix)
        )
    )
