"""Rows as they are compared in tests: tables are multisets of rows, changes are signed counts of rows."""

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any, Final

import pyarrow as pa

__all__ = ["CHANGE_COLUMNS", "Row", "difference", "rows_of", "typed_changes_of", "weights_of"]

Row = tuple[Hashable, ...]
CHANGE_COLUMNS: Final = ("_batch", "_change_type", "_change_ordinal", "_commit_snapshot_id", "_commit_timestamp")
_SIGNS: Final = {"INSERT": 1, "UPDATE_AFTER": 1, "DELETE": -1, "UPDATE_BEFORE": -1}


def rows_of(table: pa.Table) -> Counter[Row]:
    """The count of each row of the table, values compared as icefloe does: NaN equals NaN, 0.0 equals -0.0.

    >>> rows_of(pa.table({"x": [float("nan"), float("nan")]}))
    Counter({('NaN',): 2})
    """
    columns = [[freeze(value) for value in column.to_pylist()] for column in table.columns]
    return Counter(zip(*columns, strict=True)) if columns else Counter()


def typed_changes_of(
    changes: pa.Table, *, columns: Iterable[str] = ("_change_type", "_change_ordinal")
) -> Counter[Row]:
    """The count of each change: the named change columns, then the table's columns in their order."""
    return rows_of(changes.select([*columns, *_table_columns(changes)]))


def weights_of(changes: pa.Table) -> Counter[Row]:
    """The sum of the changes: the signed count of each row, without the zeros."""
    weights: Counter[Row] = Counter()
    for (change_type, *row), count in typed_changes_of(changes, columns=["_change_type"]).items():
        weights[tuple(row)] += _SIGNS[str(change_type)] * count
    return _without_zeros(weights)


def difference(start: Counter[Row], end: Counter[Row]) -> Counter[Row]:
    """The change from one state to another: the signed count of each row, without the zeros.

    >>> difference(Counter({("a",): 2}), Counter({("a",): 1, ("b",): 1}))
    Counter({('b',): 1, ('a',): -1})
    """
    weights = Counter(end)
    weights.subtract(start)
    return _without_zeros(weights)


def freeze(value: Any) -> Hashable:
    """A value that is hashable, and equal exactly where icefloe calls the values equal.

    >>> freeze({"a": [1, -0.0], "b": [("y", 2), ("x", 1)]})
    (('a', (1, 0.0)), ('b', frozenset({...
    """
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    if isinstance(value, dict):
        return tuple((name, freeze(child)) for name, child in value.items())
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        # Arrow gives a map as a list of pairs, which no other type is given as.
        return frozenset((freeze(key), freeze(child)) for key, child in value)
    if isinstance(value, list):
        return tuple(freeze(child) for child in value)
    return value


def _table_columns(changes: pa.Table) -> list[str]:
    return [name for name in changes.column_names if name not in CHANGE_COLUMNS]


def _without_zeros(weights: Counter[Row]) -> Counter[Row]:
    return Counter({row: weight for row, weight in weights.items() if weight})
