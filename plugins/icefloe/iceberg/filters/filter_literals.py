"""The literals of a filter, in the types of the columns that they are compared with."""

from decimal import Context, Decimal
from typing import Any, Final

import pyarrow as pa
from pyiceberg.expressions.literals import AboveMax, BelowMin, DecimalLiteral, DoubleLiteral, FloatLiteral, Literal
from pyiceberg.types import DecimalType, FloatType, IntegerType, LongType, PrimitiveType

from icefloe.iceberg.schemas.arrow_types import arrow_type

_EXAMPLES: Final = {
    "boolean": "true", "int": "7", "long": "7", "float": "0.5", "double": "0.5", "string": "'text'",
    "date": "'2024-02-29'", "time": "'12:30:00'", "timestamp": "'2024-02-29T12:30:00'",
    "timestamptz": "'2024-02-29T12:30:00+00:00'", "uuid": "'f79c3e09-677c-4bbd-a479-3f349cb785e7'",
}  # fmt: skip
"""A literal of each type that a filter's text can compare with."""
_EXACT: Final = Context(prec=76)
"""Twice as many digits as a decimal column can have: rescaling is exact or shows that it is not."""


def fitted_literal(literal: Literal[Any], field_type: PrimitiveType) -> Literal[Any]:
    """The literal in the column's type, exactly as the column holds an equal value.

    >>> from pyiceberg.expressions.literals import literal
    >>> fitted_literal(literal(Decimal("1.5")), DecimalType(9, 2)), fitted_literal(literal(2**40), IntegerType())
    (DecimalLiteral(Decimal('1.50')), IntAboveMax())

    Raises:
        ArithmeticError, TypeError, ValueError, pyarrow.ArrowException: it is not a value of the type.
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
