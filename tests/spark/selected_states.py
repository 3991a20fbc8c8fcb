"""States of a table of which only some columns and rows count, and what their changes must be."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark.range_check import changes_of
from support.spark.row_counts import Row, difference, freeze, weights_of
from support.spark.spark_table import SparkTable

__all__ = ["Selection", "States", "check_selection"]


@dataclass(frozen=True, kw_only=True)
class Selection:
    """A question about a range; names as `read_changes` takes them."""

    columns: tuple[str, ...] | None = None
    filter: str | None = None
    identifier_columns: tuple[str, ...] = ()

    @property
    def options(self) -> dict[str, Any]:
        return {
            "columns": self.columns,
            "filter": self.filter,
            "identifier_columns": list(self.identifier_columns),
        }

    def row(self, row: Mapping[str, Any]) -> Row:
        """The delivered part of a row: the selected fields in the table's order."""
        if self.columns is None:
            return tuple(freeze(value) for value in row.values())
        paths = [tuple(name.split(".")) for name in self.columns]
        return tuple(freeze(value) for value in (_part(row, paths) or {}).values())

    def key(self, row: Mapping[str, Any]) -> Row:
        """The identity of a row."""
        return tuple(freeze(_value(row, name)) for name in self.identifier_columns)


class States:
    """The rows of a table at its snapshots as Spark reads them, and which of them pass each filter."""

    def __init__(self, table: SparkTable, filters: Sequence[str]) -> None:
        self._filters = list(filters)
        self.table = table
        self.snapshot_ids = table.snapshot_ids()
        self.has_row_ids = table.load().metadata.format_version >= 3
        marks = ", _row_id AS filter_row_id" if self.has_row_ids else ""
        marks += "".join(f", ({text}) AS filter_{place}" for place, text in enumerate(self._filters))
        self._rows: dict[int | None, list[dict[str, Any]]] = {None: []}
        for snapshot_id in self.snapshot_ids:
            self._rows[snapshot_id] = table.sql(
                f"SELECT *{marks} FROM {{table}} VERSION AS OF {snapshot_id}"
            ).to_pylist()

    def of(self, snapshot_id: int | None, selection: Selection, *, net: bool = False) -> Counter[tuple[Row, Row]]:
        """The count of each (identity, selected row) in a state; without identity the key is empty."""
        mark = None if selection.filter is None else f"filter_{self._filters.index(selection.filter)}"
        found: Counter[tuple[Row, Row]] = Counter()
        for marked in self._rows[snapshot_id]:
            row = {name: value for name, value in marked.items() if not name.startswith("filter_")}
            if mark is None or marked[mark]:
                by_row_id = self.has_row_ids and not selection.identifier_columns and not net
                key = (marked["filter_row_id"],) if by_row_id else selection.key(row)
                found[key, selection.row(row)] += 1
        return found


def check_selection(states: States, selection: Selection) -> None:
    """In the whole range, in its second half and under ``net`` the changes are the difference of what is selected."""
    ends = [None, *states.snapshot_ids]
    for start in (0, len(ends) // 2):
        found = changes_of(states.table, ends[start], **selection.options)
        for ordinal, (before, after) in enumerate(pairwise(ends[start:])):
            step = found.filter(pc.equal(found["_change_ordinal"], ordinal))
            _check(step, states.of(before, selection), states.of(after, selection), selection)
        net = changes_of(states.table, ends[start], changes="net", **selection.options)
        before, after = (states.of(end, selection, net=True) for end in (ends[start], ends[-1]))
        _check(net, before, after, selection)


def _check(
    changes: pa.Table, before: Counter[tuple[Row, Row]], after: Counter[tuple[Row, Row]], selection: Selection
) -> None:
    by_key = difference(before, after)
    weights: Counter[Row] = Counter()
    for (_, row), weight in by_key.items():
        weights[row] += weight
    assert weights_of(changes) == {row: weight for row, weight in weights.items() if weight}, selection
    types = Counter(changes["_change_type"].to_pylist())
    assert types["UPDATE_BEFORE"] == types["UPDATE_AFTER"]
    pairs = _pairs(by_key)
    touched: Counter[Row] = Counter()
    for (_, row), weight in by_key.items():
        touched[row] += abs(weight)
    if any(abs(weights[row]) != count for row, count in touched.items()):
        # Equal rows of different identities cancel, and either of several may.
        assert types["UPDATE_BEFORE"] <= pairs, selection
    else:
        assert types["UPDATE_BEFORE"] == pairs, selection


def _pairs(by_key: Mapping[tuple[Row, Row], int]) -> int:
    """The number of updates among the changes of each identity."""
    sides: dict[Row, list[int]] = defaultdict(lambda: [0, 0])
    for (key, _), weight in by_key.items():
        if key:
            sides[key][weight > 0] += abs(weight)
    return sum(min(side) for side in sides.values())


def _part(value: Any, paths: Sequence[tuple[str, ...]]) -> Any:
    """A struct with only the named fields; all where a path ends here."""
    if value is None or () in paths:
        return value
    found = {}
    for name, child in value.items():
        inside = [path[1:] for path in paths if path[0] == name]
        if inside:
            found[name] = _part(child, inside)
    return found


def _value(row: Mapping[str, Any], name: str) -> Any:
    value: Any = row
    for part in name.split("."):
        value = None if value is None else value[part]
    return value
