"""The text of a row filter, read as an unbound Iceberg expression."""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from pydantic import ValidationError
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    LiteralPredicate,
    Not,
    Or,
    SetPredicate,
)
from pyiceberg.expressions.parser import boolean_expression, parse
from pyparsing import ParseBaseException

from icefloe.errors import TerminalError
from icefloe.pipeline.option_values import ExpandedText

__all__ = ["fold"]

_EXAMPLE: Final = "\"day >= '2024-02-29' and (status in ('new', 'paid') or place.city is null)\""
_SHOWN: Final = 40
_QUOTED: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"[^"]*\"""", re.DOTALL)
_DOT: Final = "\uffff"
"""A dot inside a quoted name, which PyIceberg's grammar refuses."""


def parse_filter(text: str, *, written: str | None = None) -> BooleanExpression:
    """The unbound expression; `column_name` gives the names in it.

    Args:
        written: with its ``${NAME}``, which errors quote; None if it has none.

    >>> parse_filter("a = 1")
    EqualTo(term=Reference(name='a'), literal=LongLiteral(1))
    """
    given = ExpandedText.of(text, written)
    shown = given.written
    if not text.strip():
        raise TerminalError(f"filter is empty: write an expression such as {_EXAMPLE}, or remove the key")
    try:
        return parse(_with_hidden_dots(text))
    except ParseBaseException as error:
        raise _unreadable(given, max(error.loc, _readable_length(text))) from None
    except ValidationError:
        raise TerminalError(
            f"filter {shown!r} uses true or false inside and, or, not: use true or false as the whole filter, or write "
            "a comparison such as paid = true"
        ) from None
    except ValueError:
        # PyIceberg's parser raises it for patterns only.
        raise TerminalError(
            f"filter {shown!r} has a pattern that like does not know: only a % at its end is a wildcard, as in "
            "name like 'A%'; write \\% for a percent sign"
        ) from None


def _unreadable(given: ExpandedText, place: int) -> TerminalError:
    while given.text[place : place + 1].isspace():
        place += 1
    text, place = given.written, given.written_place(place)
    rest = text[place:]
    found = f" ({rest[:_SHOWN]!r})" if rest else " (its end)"
    return TerminalError(
        f"filter {text!r} cannot be read at character {place + 1}{found} as an Iceberg expression: write one such as "
        f"{_EXAMPLE}"
    )


def _with_hidden_dots(text: str) -> str:
    return _QUOTED.sub(lambda part: part[0].replace(".", _DOT) if part[0].startswith('"') else part[0], text)


def column_name(predicate: Any) -> str:
    """The dotted name of a comparison's column.

    >>> column_name(parse_filter('"a.b" = 1')), column_name(parse_filter('a."b.c" = 1'))
    ('a.b', 'a.b.c')
    """
    return str(predicate.term.name).replace(_DOT, ".")


def _readable_length(text: str) -> int:
    """Length of the longest beginning that is a complete expression."""
    try:
        found = next(boolean_expression.scan_string(_with_hidden_dots(text), max_matches=1), None)
    except ValueError:
        return 0
    return found[2] if found is not None and not text[: found[1]].strip() else 0


def comparisons(expression: BooleanExpression) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """The comparisons: a column's name, and the values it is compared with.

    >>> dict(comparisons(parse_filter("a = 1 and not (b > 2 or c is null)")))
    {'a': (1,), 'b': (2,), 'c': ()}
    """
    match expression:
        case Not():
            yield from comparisons(expression.child)
        case And() | Or():
            yield from comparisons(expression.left)
            yield from comparisons(expression.right)
        case AlwaysTrue() | AlwaysFalse():
            pass
        case _:
            yield _comparison(expression)


def _comparison(predicate: Any) -> tuple[str, tuple[Any, ...]]:
    literals: tuple[Any, ...] = ()
    if isinstance(predicate, SetPredicate):
        literals = tuple(predicate.literals)
    elif isinstance(predicate, LiteralPredicate):
        literals = (predicate.literal,)
    return column_name(predicate), tuple(literal.value for literal in literals)


def fold(expression: BooleanExpression, predicate: Callable[[Any], object], constant: Callable[[bool], object]) -> Any:
    """The value of a tree whose leaves have values for ``&`` and ``|``: booleans, masks, trees.

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
