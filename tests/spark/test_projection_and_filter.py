"""Selected columns and filtered rows: every step is the difference of what Spark selects of its two states."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from icefloe.api import read_changes
from icefloe.errors import TerminalError
from spark.range_check import changes_of
from support.spark.java_writers import JavaWriters
from support.spark.row_counts import Row, difference, freeze, typed_changes_of, weights_of
from support.spark.spark_lab import SparkLab
from support.spark.spark_table import SparkTable

pytestmark = pytest.mark.spark

CreateTable = Callable[..., SparkTable]


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


COLUMNS = "id bigint, place struct<city: string, zip: int>, v int, note string"
KINDS = {
    "copy-on-write V3, partitioned": ("copy-on-write", 3, "v"),
    "merge-on-read V3": ("merge-on-read", 3, None),
    "equality deletes": ("merge-on-read", 2, None),
}
SELECTIONS = (
    Selection(columns=("v", "id"), identifier_columns=("id",)),
    Selection(columns=("place.city",)),
    Selection(columns=("place.city",), identifier_columns=("id",)),
    Selection(columns=("place.zip", "note"), identifier_columns=("place.city", "id")),
    Selection(columns=("v",), identifier_columns=("place.zip",)),
    Selection(filter="v = 1", identifier_columns=("id",)),
    Selection(filter="v = 1"),
    Selection(filter="place.city = 'a' AND v < 2", identifier_columns=("id",)),
    Selection(filter="NOT (place.zip > 12)", columns=("id", "v"), identifier_columns=("id",)),
    Selection(filter="place IS NULL OR note LIKE 'x%'", columns=("place",), identifier_columns=("id",)),
    Selection(filter="id >= 5", columns=("v",), identifier_columns=("place.zip",)),
    Selection(filter="id > 1000", columns=("id",)),
)


@pytest.fixture(scope="module", params=KINDS)
def states(spark_lab: SparkLab, request: pytest.FixtureRequest) -> States:
    mode, format_version, partitioned_by = KINDS[request.param]
    table = spark_lab.create_table(
        f"selected_{list(KINDS).index(request.param)}",
        COLUMNS, mode=mode, format_version=format_version, partitioned_by=partitioned_by,
    )  # fmt: skip
    table.sql(
        "INSERT INTO {table} SELECT /*+ COALESCE(1) */ id, CASE WHEN id % 7 = 3 THEN null ELSE named_struct('city', "
        "substr('abc', CAST(id % 3 AS int) + 1, 1), 'zip', CAST(id AS int)) END, CAST(id % 3 AS int), 'n' "
        "FROM range(20)"
    )
    table.sql(
        "INSERT INTO {table} VALUES (3, null, 0, 'x'), (4, named_struct('city', 'a', 'zip', null), 1, 'x'), "
        "(null, null, 1, null)"
    )
    table.sql("UPDATE {table} SET note = concat('x', note) WHERE id BETWEEN 4 AND 8")
    table.sql("UPDATE {table} SET v = v + 1, note = 'y' WHERE id IN (1, 2, 4, 6)")
    if request.param == "equality deletes":
        java = JavaWriters(table)
        rows = [(5, {"city": "c", "zip": 12}, 1, "x"), (9, {"city": "a", "zip": 9}, 1, "n"), (None, None, 2, "x")]
        java.row_delta(rows=java.data_files(rows), deletes=java.equality_deletes(["id"], [(5,), (9,), (None,)]))
        # Keys of one column: Spark may read cached keys of several in another order.
        java.row_delta(deletes=java.equality_deletes(["place.city"], [("c",)]))
    table.sql("UPDATE {table} SET place = named_struct('city', 'a', 'zip', place.zip) WHERE id IN (7, 8, 13, 17)")
    table.sql("DELETE FROM {table} WHERE id IN (0, 8, 19) OR v > 2")
    table.sql("UPDATE {table} SET id = id + 100 WHERE id IN (10, 11)")
    table.sql("UPDATE {table} SET id = 21 - id WHERE id IN (5, 16)")
    return States(table, [each.filter for each in SELECTIONS if each.filter])


@pytest.mark.parametrize("selection", SELECTIONS, ids=str)
def test_changes_are_the_difference_of_what_is_selected(states: States, selection: Selection) -> None:
    check_selection(states, selection)


def test_columns_come_in_the_order_of_the_table(states: States) -> None:
    reader = read_changes(states.table.load(), columns=["note", "place.zip", "id"])
    assert reader.schema.names[4:] == ["id", "place", "note"]
    assert [field.name for field in reader.schema.field("place").type] == ["zip"]
    assert reader.read_all().schema == reader.schema


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_names_are_those_of_the_range_s_last_schema(create_table: CreateTable, mode: str) -> None:
    table = create_table("id bigint, a int, b int", mode=mode)
    table.sql("INSERT INTO {table} VALUES (1, 1, 10), (2, 2, 20), (3, 3, 30)")
    table.sql("UPDATE {table} SET a = 5 WHERE id = 1")
    table.sql("ALTER TABLE {table} RENAME COLUMN a TO c")
    table.sql("ALTER TABLE {table} RENAME COLUMN b TO a")
    table.sql("UPDATE {table} SET c = 0 WHERE id = 2")
    first, second, third = table.snapshot_ids()
    options = {"columns": ["c"], "identifier_columns": ["id"]}
    found = changes_of(table, first, filter="c >= 2", **options)
    assert typed_changes_of(found) == Counter({("INSERT", 0, 5): 1, ("DELETE", 1, 2): 1})
    # Up to the second snapshot the schema still has the old names.
    assert weights_of(changes_of(table, first, second, filter="a >= 2")) == Counter({(1, 5, 10): 1})
    with pytest.raises(TerminalError, match="filter names column 'c'"):
        changes_of(table, first, second, filter="c >= 2")
    with pytest.raises(TerminalError, match="columns names 'b'"):
        changes_of(table, second, third, columns=["b"])
