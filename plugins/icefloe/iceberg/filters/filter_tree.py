"""Filters as trees of ``and`` and ``or`` over predicates; negations are pushed down before anything else happens."""

from collections.abc import Callable
from typing import Any

from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, And, BooleanExpression, Or

__all__ = ["fold"]


def fold(expression: BooleanExpression, predicate: Callable[[Any], Any], constant: Callable[[bool], Any]) -> Any:
    """The value of a tree whose leaves have values that ``&`` and ``|`` join: booleans, masks, other trees.

    Args:
        expression: without ``not``.
        predicate: the value of a comparison.
        constant: the value of true and of false.

    >>> from pyiceberg.expressions import EqualTo, LessThan
    >>> fold(EqualTo("a", 1) & LessThan("b", 2), lambda leaf: leaf.literal.value == 1, bool)
    False
    """
    match expression:
        case And():
            return fold(expression.left, predicate, constant) & fold(expression.right, predicate, constant)
        case Or():
            return fold(expression.left, predicate, constant) | fold(expression.right, predicate, constant)
        case AlwaysTrue():
            return constant(True)
        case AlwaysFalse():
            return constant(False)
    return predicate(expression)
