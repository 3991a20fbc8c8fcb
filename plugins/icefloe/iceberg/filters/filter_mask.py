"""Evaluates a bound filter on record batches, with Arrow's kernels."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.expressions import (
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
)

from icefloe.iceberg.filters.filter_syntax import fold

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
    """The rows for which an expression without ``not`` is true; unknown (null) counts as false.

    Args:
        expression: bound.
        batch: has its top-level columns; text may be dictionary-encoded.
        paths: by field id, the names that lead to a column.
    """
    return fold(
        expression,
        lambda predicate: _matches(predicate, _column(batch, paths[predicate.term.ref().field.field_id])),
        lambda value: np.full(batch.num_rows, value),
    )


def _column(batch: pa.RecordBatch, path: tuple[str, ...]) -> pa.Array:
    top, *nested = path
    column = batch.column(top)
    values = pc.struct_field(column, nested) if nested else column
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
