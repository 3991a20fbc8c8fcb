"""The text of a filter, read and bound to a schema by SQL's rules: null compares with nothing.

PyIceberg's own binding answers ``x < 3000000000`` on an int column with "every row", even if x is null. It rounds 1.5
to 2 for an int column, and takes a required field of a missing struct for a value.
"""

import re
from collections.abc import Iterator
from decimal import Context, Decimal
from typing import Any, Final

import pyarrow as pa
from pydantic import ValidationError
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundNotNull,
    BoundReference,
    BoundTerm,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    IsNaN,
    LessThan,
    LessThanOrEqual,
    LiteralPredicate,
    Not,
    NotEqualTo,
    NotIn,
    NotStartsWith,
    Or,
    SetPredicate,
    StartsWith,
)
from pyiceberg.expressions.literals import AboveMax, BelowMin, DecimalLiteral, DoubleLiteral, FloatLiteral, Literal
from pyiceberg.expressions.parser import parse
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
)
from pyparsing import ParseBaseException

from icefloe.errors import ExpandedText, TerminalError
from icefloe.iceberg.schemas.arrow_columns import arrow_type
from icefloe.iceberg.schemas.column_paths import fields_by_name, nearest_names, optional_fields

_EXAMPLE: Final = "\"day >= '2024-02-29' and (status in ('new', 'paid') or place.city is null)\""
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
    shown = ExpandedText.of(text, written).written
    if not text.strip():
        raise TerminalError(f"filter is empty: write an expression such as {_EXAMPLE}, or remove the key")
    try:
        return parse(_with_hidden_dots(text))
    except ParseBaseException:
        raise TerminalError(
            f"filter {shown!r} cannot be read as an Iceberg expression: write one such as {_EXAMPLE}"
        ) from None
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


def _with_hidden_dots(text: str) -> str:
    return _QUOTED.sub(lambda part: part[0].replace(".", _DOT) if part[0].startswith('"') else part[0], text)


def column_name(predicate: Any) -> str:
    """The dotted name of a comparison's column.

    >>> column_name(parse_filter('"a.b" = 1')), column_name(parse_filter('a."b.c" = 1'))
    ('a.b', 'a.b.c')
    """
    return str(predicate.term.name).replace(_DOT, ".")


def comparisons(expression: BooleanExpression) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """The comparisons: a column's name, and the values it is compared with.

    >>> dict(comparisons(parse_filter("a = 1 and not (b > 2 or c is null)")))
    {'a': (1,), 'b': (2,), 'c': ()}
    """
    predicate: Any = expression
    match predicate:
        case Not():
            yield from comparisons(predicate.child)
        case And() | Or():
            yield from comparisons(predicate.left)
            yield from comparisons(predicate.right)
        case AlwaysTrue() | AlwaysFalse():
            pass
        case SetPredicate():
            yield column_name(predicate), tuple(literal.value for literal in predicate.literals)
        case LiteralPredicate():
            yield column_name(predicate), (predicate.literal.value,)
        case _:
            yield column_name(predicate), ()


_EXAMPLES: Final = {
    "boolean": "true", "int": "7", "long": "7", "float": "0.5", "double": "0.5", "string": "'text'",
    "date": "'2024-02-29'", "time": "'12:30:00'", "timestamp": "'2024-02-29T12:30:00'",
    "timestamptz": "'2024-02-29T12:30:00+00:00'", "uuid": "'f79c3e09-677c-4bbd-a479-3f349cb785e7'",
}  # fmt: skip
"""A literal of each type that a filter's text can compare with."""
_EXACT: Final = Context(prec=76)
"""Twice as many digits as a decimal column can have: rescaling is exact or shows that it is not."""


def fitted_literal(literal: Literal[Any], field_type: PrimitiveType) -> Literal[Any]:
    """The literal in the column's type, exactly as the column holds it.

    >>> from pyiceberg.expressions.literals import literal
    >>> fitted_literal(literal(Decimal("1.5")), DecimalType(9, 2)), fitted_literal(literal(2**40), IntegerType())
    (DecimalLiteral(Decimal('1.50')), IntAboveMax())
    """
    value = literal.value
    if (
        isinstance(field_type, DecimalType)
        and isinstance(value, int | float | Decimal | str)
        and not isinstance(value, bool)
    ):
        fitted: Literal[Any] = DecimalLiteral(_rescaled(Decimal(value), field_type.scale))
    else:
        fitted = literal.to(field_type)
    if isinstance(field_type, FloatType):
        if isinstance(fitted, AboveMax | BelowMin):
            return DoubleLiteral(float(value))
        return FloatLiteral(pa.scalar(fitted.value, pa.float32()).as_py())
    if isinstance(fitted, AboveMax | BelowMin):
        return fitted
    if isinstance(field_type, IntegerType | LongType) and fitted.value != Decimal(value):
        raise ValueError(f"{value} is not whole")
    pa.scalar(fitted.value, getattr(arrow_type(field_type), "storage_type", arrow_type(field_type)))
    return fitted


def _rescaled(value: Decimal, scale: int) -> Decimal:
    rescaled = value.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    if rescaled != value:
        raise ValueError(f"{value} has more than {scale} decimals")
    return rescaled


def literal_advice(field_type: PrimitiveType) -> str:
    """Advice on how to write a value of a type in a filter."""
    if isinstance(field_type, DecimalType):
        places, whole = field_type.scale, field_type.precision - field_type.scale
        return f"write a number of at most {whole} digits before the point and {places} after it"
    example = _EXAMPLES.get(str(field_type))
    if example is None:
        return "a filter's text has no values of this type; only is null and is not null apply"
    return f"write a value such as {example}"


_ORDERS: Final = (LessThan, LessThanOrEqual, GreaterThan, GreaterThanOrEqual)


def bind_filter(expression: BooleanExpression, schema: Schema, *, table: str, given: ExpandedText) -> BooleanExpression:
    """The expression by field id, with literals of the columns' own types and no ``not``; errors quote ``given``."""
    # Negations are in the predicates: a negated order of floats lets NaN pass. Errors show no value of the environment.
    try:
        return _Binding(schema, table, given).bind(expression, is_negated=False)
    except RecursionError:
        raise TerminalError(f"filter of table {table} is nested too deeply: write it flatter") from None


class _Binding:
    def __init__(self, schema: Schema, table: str, given: ExpandedText) -> None:
        self._schema = Schema(*optional_fields(schema.fields))
        self._fields = fields_by_name(self._schema)
        self._table = table
        self._given = given

    def bind(self, expression: BooleanExpression, *, is_negated: bool) -> BooleanExpression:
        match expression:
            case Not():
                return self.bind(expression.child, is_negated=not is_negated)
            case And() | Or():
                left = self.bind(expression.left, is_negated=is_negated)
                right = self.bind(expression.right, is_negated=is_negated)
                # Negated, and becomes or: not (a and b) is not a or not b.
                return left & right if isinstance(expression, And) != is_negated else left | right
            case AlwaysTrue() | AlwaysFalse():
                return ~expression if is_negated else expression
        return self._negated(expression) if is_negated else self._predicate(expression)

    def _negated(self, predicate: Any) -> BooleanExpression:
        # not x < 5 is x >= 5, and of a float also true of NaN, of which x < 5 is false. Null stays unknown in both.
        opposite = self._predicate(~predicate)
        if isinstance(predicate, _ORDERS) and isinstance(
            self._field(column_name(predicate)).field_type, FloatType | DoubleType
        ):
            return opposite | self._predicate(IsNaN(term=predicate.term))
        return opposite

    def _predicate(self, predicate: Any) -> BooleanExpression:
        name = column_name(predicate)
        field = self._field(name)
        term = BoundReference(field, self._schema.accessor_for_field(field.field_id))
        if isinstance(predicate, SetPredicate):
            return self._set(predicate, term, name)
        if isinstance(predicate, LiteralPredicate):
            return self._comparison(predicate, term, name)
        bound: BooleanExpression = predicate.as_bound(term)
        return bound

    def _comparison(self, predicate: Any, term: BoundTerm, name: str) -> BooleanExpression:
        field_type = term.ref().field.field_type
        if isinstance(predicate, StartsWith | NotStartsWith) and not isinstance(field_type, StringType):
            raise self._unfit(name, field_type, f"{predicate.literal.value}%", "like compares text only")
        literal = self._literal(predicate.literal, field_type, name)
        if isinstance(literal, AboveMax | BelowMin):
            return _beyond(predicate, term, is_above=isinstance(literal, AboveMax))
        return predicate.as_bound(term, literal)

    def _set(self, predicate: Any, term: BoundTerm, name: str) -> BooleanExpression:
        literals = {self._literal(literal, term.ref().field.field_type, name) for literal in predicate.literals}
        # No int is 3000000000, so x in (1, 3000000000) is x in (1).
        literals = {literal for literal in literals if not isinstance(literal, AboveMax | BelowMin)}
        if not literals:
            return BoundNotNull(term=term) if isinstance(predicate, NotIn) else AlwaysFalse()
        return predicate.as_bound(term, literals)

    def _field(self, name: str) -> NestedField:
        if name in self._fields:
            return self._fields[name]
        if name in self._schema.column_names:
            raise TerminalError(
                f"filter names {name!r}, which is inside a list or map of table {self._table}: a filter reaches into "
                "structs only; filter by another column"
            )
        near = ", ".join(map(repr, nearest_names(name, self._fields)))
        shown = f"column {name!r}" if self._given.says(name) else f"a column made of {self._given.references}"
        raise TerminalError(f"filter names {shown}, which table {self._table} does not have; did you mean {near}?")

    def _literal(self, literal: Literal[Any], field_type: Any, name: str) -> Literal[Any]:
        if not isinstance(field_type, PrimitiveType):
            raise self._unfit(name, field_type, literal.value, "only is null and is not null apply to it")
        try:
            fitted = fitted_literal(literal, field_type)
        except (ArithmeticError, OverflowError, TypeError, ValueError, pa.ArrowException):
            raise self._unfit(name, field_type, literal.value, literal_advice(field_type)) from None
        return fitted

    def _unfit(self, name: str, field_type: object, value: object, advice: str) -> TerminalError:
        given = self._given
        is_said = given.says(str(value).removesuffix("%"))
        shown = repr(value) if isinstance(value, str) else str(value)
        shown = shown if is_said else f"a value made of {given.references}"
        return TerminalError(
            f"filter compares column {name!r} of table {self._table}, of type {field_type}, with {shown}: {advice}"
        )


def _beyond(predicate: LiteralPredicate, term: BoundTerm, *, is_above: bool) -> BooleanExpression:
    """A comparison with a number outside of the column's range."""
    # No int reaches 3000000000. So x < 3000000000 is true of every x but null, and x > 3000000000 of none.
    if isinstance(predicate, EqualTo):
        return AlwaysFalse()
    if isinstance(predicate, GreaterThan | GreaterThanOrEqual):
        return AlwaysFalse() if is_above else BoundNotNull(term=term)
    if isinstance(predicate, NotEqualTo) or is_above:
        return BoundNotNull(term=term)
    return AlwaysFalse()
