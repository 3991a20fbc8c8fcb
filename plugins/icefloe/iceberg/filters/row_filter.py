"""A row filter: selects rows of a table by an Iceberg expression over the names of one schema."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundEqualTo,
    BoundGreaterThan,
    BoundGreaterThanOrEqual,
    BoundIn,
    BoundIsNaN,
    BoundIsNull,
    BoundLessThan,
    BoundLessThanOrEqual,
    BoundNotEqualTo,
    BoundNotIn,
    BoundNotNaN,
    BoundNotNull,
    BoundNotStartsWith,
    BoundPredicate,
    BoundStartsWith,
    Or,
)
from pyiceberg.expressions.visitors import extract_field_ids
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from icefloe.errors import ExpandedText
from icefloe.iceberg.filters.filter_binding import bind_filter, comparisons, parse_filter
from icefloe.iceberg.schemas.column_paths import IdentifierColumns, struct_paths

__all__ = ["RowFilter"]

_UNARY: Final[Mapping[type[BoundPredicate], Callable[[pa.Array], pa.Array]]] = {
    BoundNotNull: pc.is_valid,
    BoundIsNaN: pc.is_nan,
    BoundNotNaN: lambda values: pc.invert(pc.is_nan(values)),
}
_COMPARISON: Final[Mapping[type[BoundPredicate], Callable[[pa.Array, pa.Scalar], pa.Array]]] = {
    BoundEqualTo: pc.equal,
    BoundNotEqualTo: pc.not_equal,
    BoundLessThan: pc.less,
    BoundLessThanOrEqual: pc.less_equal,
    BoundGreaterThan: pc.greater,
    BoundGreaterThanOrEqual: pc.greater_equal,
}


def filter_mask(
    expression: BooleanExpression, batch: pa.RecordBatch, paths: Mapping[int, tuple[str, ...]]
) -> NDArray[np.bool_]:
    """The rows for which an expression without ``not`` is true; unknown (null) counts as false."""
    match expression:
        case And():
            return filter_mask(expression.left, batch, paths) & filter_mask(expression.right, batch, paths)
        case Or():
            return filter_mask(expression.left, batch, paths) | filter_mask(expression.right, batch, paths)
        case AlwaysTrue() | AlwaysFalse():
            return np.full(batch.num_rows, isinstance(expression, AlwaysTrue))
    predicate: Any = expression
    return _matches(predicate, _column(batch, paths[predicate.term.ref().field.field_id]))


def _column(batch: pa.RecordBatch, path: tuple[str, ...]) -> pa.Array:
    [values] = IdentifierColumns((path,)).values(batch)
    return values.storage if isinstance(values, pa.ExtensionArray) else values


def _matches(predicate: BoundPredicate, values: pa.Array) -> NDArray[np.bool_]:
    if isinstance(predicate, BoundIsNull):
        # The opposite of is_valid, because a null in the indices of a dictionary takes null from any condition.
        return ~_true_where(pc.is_valid, values)
    return _true_where(lambda plain: _found(predicate, plain), values)


def _true_where(condition: Callable[[pa.Array], pa.Array], values: pa.Array) -> NDArray[np.bool_]:
    if pa.types.is_dictionary(values.type):
        # The condition is evaluated once for each distinct value.
        found = condition(values.dictionary).take(values.indices)
    else:
        found = condition(values)
    return found.fill_null(False).to_numpy(zero_copy_only=False)


def _found(predicate: Any, values: pa.Array) -> pa.Array:
    kind = type(predicate)
    match predicate:
        case BoundStartsWith():
            return pc.starts_with(values, predicate.literal.value)
        case BoundNotStartsWith():
            return pc.invert(pc.starts_with(values, predicate.literal.value))
        case BoundIn():
            return _is_in(values, predicate.value_set)
        case BoundNotIn():
            return pc.and_(pc.is_valid(values), pc.invert(_is_in(values, predicate.value_set)))
    if kind in _UNARY:
        return _UNARY[kind](values)
    # A float column is compared as double: a literal beyond its range would turn into infinity.
    literal_type = pa.float64() if pa.types.is_float32(values.type) else values.type
    return _COMPARISON[kind](values, pa.scalar(predicate.literal.value, literal_type))


def _is_in(values: pa.Array, literals: Collection[Any]) -> pa.Array:
    if not pa.types.is_floating(values.type):
        return pc.is_in(values, value_set=pa.array(list(literals), values.type))
    # is_in distinguishes 0.0 from -0.0; adding 0.0 makes them equal.
    wanted = pa.array([literal + 0.0 for literal in literals], pa.float64())
    return pc.is_in(pc.add(values.cast(pa.float64()), 0.0), value_set=wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """A filter that is bound to a schema.

    A row passes as in SQL's WHERE: a comparison with null is not true, nor is its negation. NaN is neither equal to,
    less nor greater than anything, as in PyIceberg's scans.

    Attributes:
        fields: of the compared columns the innermost field.
        compared: by each name in the text, the values.
    """

    text: str
    expression: BooleanExpression
    fields: tuple[NestedField, ...]
    paths: Mapping[int, tuple[str, ...]]
    compared: Mapping[str, Sequence[Any]]
    named: Mapping[str, NestedField]

    @classmethod
    def parse(cls, text: str, schema: Schema, *, table: str, written: str | None = None) -> Self:
        """The filter in a text, over the columns of a schema.

        Args:
            written: with its ``${ENV}``, which errors quote; None if it has none.
        """
        given = ExpandedText.of(text, written)
        parsed = parse_filter(text, written=written)
        expression = bind_filter(parsed, schema, table=table, given=given)
        fields = tuple(schema.find_field(field_id) for field_id in sorted(extract_field_ids(expression)))
        compared: dict[str, list[Any]] = {}
        for name, values in comparisons(parsed):
            compared.setdefault(name, []).extend(values)
        return cls(
            text=given.written,
            expression=expression,
            fields=fields,
            paths=struct_paths(schema),
            compared=compared,
            named={name: schema.find_field(name) for name in compared},
        )

    @property
    def columns(self) -> frozenset[str]:
        """The top-level columns that it looks at."""
        return frozenset(self.paths[field.field_id][0] for field in self.fields)

    def rounds(self, name: str) -> bool:
        """True if a column is compared with other numbers as a float than as a double."""
        numbers = [float(value) for value in self.compared[name]]
        narrow = [pa.scalar(number, pa.float64()).cast(pa.float32(), safe=False).as_py() for number in numbers]
        # A number beyond all floats is compared as it is.
        return any(not math.isinf(near) and near != number for near, number in zip(narrow, numbers, strict=True))

    def mask(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        """Mask of the rows that pass."""
        return filter_mask(self.expression, batch, self.paths)
