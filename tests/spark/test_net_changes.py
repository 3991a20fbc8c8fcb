"""Net changes of tables that Spark wrote, against the states that Spark reads, and Iceberg's own net changelog."""

from collections import Counter
from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest

from changes.net_states import NetChange, net_of_states
from icefloe.api import read_changes
from support.spark.row_counts import Row, typed_changes_of
from support.spark.spark_table import SparkTable

pytestmark = pytest.mark.spark

CreateTable = Callable[..., SparkTable]
COLUMNS = ["id", "name", "v"]


@pytest.fixture(
    params=[("copy-on-write", 2), ("merge-on-read", 3)],
    ids=lambda given: f"{given[0]} V{given[1]}",
)
def table(request: pytest.FixtureRequest, create_table: CreateTable) -> SparkTable:
    """A table with one commit: ids 0 to 5, a duplicate of 3, and two rows without an id."""
    mode, format_version = request.param
    made = create_table("id bigint, name string, v int", mode=mode, format_version=format_version)
    made.sql(
        "INSERT INTO {table} SELECT id, 'a', 0 FROM range(6) UNION ALL "
        "SELECT * FROM VALUES (3, 'a', 0), (CAST(null AS bigint), 'a', 0), (CAST(null AS bigint), 'b', 0)"
    )
    return made


def net_of(table: SparkTable, after: int | None, up_to: int, identifier_columns: Sequence[str] = ()) -> pa.Table:
    return read_changes(
        table.load(), after, up_to, identifier_columns=list(identifier_columns) or None, changes="net"
    ).read_all()


def require_net(table: SparkTable, identifier_columns: Sequence[str] = ()) -> None:
    """The net changes of ranges are the difference of the states around them, by identity, under the last change."""
    snapshot_ids = [None, *table.snapshot_ids()]
    states = [table.rows_at(snapshot_id) for snapshot_id in snapshot_ids]
    positions = [COLUMNS.index(name) for name in identifier_columns]
    identity: Callable[[Row], Row] = (lambda row: tuple(row[each] for each in positions)) if positions else tuple
    for start in range(len(states) - 1):
        for stop in range(start + 1, len(states)):
            expected = list(net_of_states(states[start : stop + 1], identity))
            found = net_of(table, snapshot_ids[start], snapshot_ids[stop], identifier_columns)
            require_equal(found, expected, snapshot_ids[start + 1 : stop + 1], identity, has_identity=bool(positions))


def require_equal(
    found: pa.Table,
    expected: Sequence[NetChange],
    step_snapshot_ids: Sequence[int],
    identity: Callable[[Row], Row],
    *,
    has_identity: bool,
) -> None:
    rows: Counter[Row] = Counter()
    types: Counter[Row] = Counter()
    for change in expected:
        ordinal = change.change_ordinal
        for weight, side in ((-1, change.deletes), (1, change.inserts)):
            for row, count in side.items():
                rows[weight, ordinal, step_snapshot_ids[ordinal], *row] += count
        pairs = change.pairs if has_identity else 0
        types["UPDATE_BEFORE", change.identity] = types["UPDATE_AFTER", change.identity] = pairs
        types["DELETE", change.identity] = change.deletes.total() - pairs
        types["INSERT", change.identity] = change.inserts.total() - pairs
    found_rows: Counter[Row] = Counter()
    found_types: Counter[Row] = Counter()
    columns = ["_change_type", "_change_ordinal", "_commit_snapshot_id"]
    for (kind, ordinal, snapshot_id, *row), count in typed_changes_of(found, columns=columns).items():
        found_rows[1 if kind in ("INSERT", "UPDATE_AFTER") else -1, ordinal, snapshot_id, *row] += count
        found_types[kind, identity(tuple(row))] += count
    assert found_rows == rows
    assert found_types == +types


def test_net_changes_of_every_range_are_the_difference_of_its_states(table: SparkTable) -> None:
    """Keys that change and come back, duplicates, nulls, rows that only pass through."""
    table.sql("UPDATE {table} SET name = 'b' WHERE id IN (1, 3) OR id IS NULL")
    table.sql("INSERT INTO {table} VALUES (3, 'a', 0), (10, 'x', 1), (10, 'x', 1), (null, 'c', 1)")
    table.sql("UPDATE {table} SET name = 'a', id = CASE WHEN id = 10 THEN 20 ELSE id END WHERE id IN (1, 3, 10)")
    table.sql("DELETE FROM {table} WHERE id = 20 OR (id IS NULL AND name = 'b' AND v = 0)")
    first, *_, last = table.snapshot_ids()
    found = net_of(table, first, last, ["id"])
    assert set(zip(found["_change_type"].to_pylist(), found["id"].to_pylist(), strict=True)) == {
        ("INSERT", 3), ("UPDATE_BEFORE", None), ("UPDATE_AFTER", None), ("DELETE", None)
    }  # fmt: skip
    for identity in ([], ["id"], ["name"], ["id", "v"]):
        require_net(table, identity)


def test_rows_that_were_only_carried_over_keep_the_step_that_changed_them(table: SparkTable) -> None:
    table.sql("INSERT INTO {table} SELECT /*+ COALESCE(1) */ id, 'n', 0 FROM range(30, 34)")
    inserted = table.snapshot_ids()[-1]
    table.sql("DELETE FROM {table} WHERE id = 30")
    table.lab.sql(
        f"CALL lab.system.rewrite_data_files(table => '{table.identifier}', options => map('rewrite-all', 'true'))"
    )
    table.sql("UPDATE {table} SET v = 1 WHERE id = 33")
    first, *_, last = table.snapshot_ids()
    found = net_of(table, first, last, ["id"])
    assert dict(zip(found["id"].to_pylist(), found["_commit_snapshot_id"].to_pylist(), strict=True)) == {
        31: inserted, 32: inserted, 33: last
    }  # fmt: skip


def test_iceberg_gives_the_same_net_rows_if_it_gives_any(create_table: CreateTable) -> None:
    table = create_table("id bigint, name string, v int")
    table.sql("INSERT INTO {table} SELECT id, 'a', 0 FROM range(6)")
    table.sql("UPDATE {table} SET v = 1 WHERE id IN (1, 2)")
    table.sql("INSERT INTO {table} VALUES (10, 'x', 0), (10, 'x', 0), (11, 'x', 0)")
    table.sql("UPDATE {table} SET v = 0 WHERE id = 1")
    table.sql("DELETE FROM {table} WHERE id = 11")
    table.sql("INSERT INTO {table} VALUES (10, 'x', 0)")
    first, *others = table.snapshot_ids()
    for up_to in others:
        theirs, ours = (
            table.changelog(after_snapshot_id=first, up_to_snapshot_id=up_to, net=True),
            net_of(table, first, up_to),
        )
        assert typed_changes_of(ours, columns=["_change_type"]) == typed_changes_of(theirs, columns=["_change_type"])
