"""V3 tables without identifier columns: row ids make updates of the changes of one step."""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spark.range_check import changes_of, check_ranges
from support.spark.java_writers import JavaWriters
from support.spark.row_counts import Row, difference, rows_of, typed_changes_of, weights_of
from support.spark.spark_table import SparkTable

pytestmark = pytest.mark.spark

CreateTable = Callable[..., SparkTable]


def rows_with_ids(table: SparkTable, snapshot_id: int | None) -> Counter[Row]:
    """The rows of a state, each with its row id before its values, as Spark reads them."""
    if snapshot_id is None:
        return Counter()
    return rows_of(table.sql(f"SELECT _row_id, * FROM {{table}} VERSION AS OF {snapshot_id}"))


def check_row_ids(table: SparkTable, **options: Any) -> pa.Table:
    """In every step of the whole range each row id that holds another row is one update, and nothing else is.

    Only for histories in which no row moves from one row id to another inside of a step.

    Returns:
        The changes of the whole range.
    """
    found = changes_of(table, **options)
    ends = [None, *table.snapshot_ids()]
    states = [rows_with_ids(table, snapshot_id) for snapshot_id in ends]
    steps = [pair for pair in pairwise(states) if difference(*(_without_ids(state) for state in pair))]
    for ordinal, (start, end) in enumerate(steps):
        step = found.filter(pc.equal(found["_change_ordinal"], ordinal))
        assert weights_of(step) == difference(_without_ids(start), _without_ids(end))
        assert typed_changes_of(step, columns=["_change_type"]) == _expected(start, end)
    assert set(found["_change_ordinal"].to_pylist()) == set(range(len(steps)))
    return found


def _without_ids(state: Counter[Row]) -> Counter[Row]:
    rows: Counter[Row] = Counter()
    for (_, *row), count in state.items():
        rows[tuple(row)] += count
    return rows


def _expected(start: Counter[Row], end: Counter[Row]) -> Counter[Row]:
    before, after = ({row[0]: row[1:] for row in state} for state in (start, end))
    changed = [row_id for row_id in before.keys() | after.keys() if before.get(row_id) != after.get(row_id)]
    gone, came = (Counter(state[row_id] for row_id in changed if row_id in state) for state in (before, after))
    assert not gone & came, "rows move between row ids"
    expected: Counter[Row] = Counter()
    for row_id in changed:
        is_update = row_id in before and row_id in after
        if row_id in before:
            expected["UPDATE_BEFORE" if is_update else "DELETE", *before[row_id]] += 1
        if row_id in after:
            expected["UPDATE_AFTER" if is_update else "INSERT", *after[row_id]] += 1
    return expected


MODES = pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
COLUMNS = "id bigint, name string, v int"


def created(create_table: CreateTable, mode: str, rows: int = 10, **arguments: Any) -> SparkTable:
    table = create_table(COLUMNS, mode=mode, **{"format_version": 3, **arguments})
    table.sql(f"INSERT INTO {{table}} SELECT /*+ COALESCE(1) */ id, concat('n', id), 0 FROM range({rows})")
    return table


def by_java(table: SparkTable) -> Callable[[int | None, int], Counter[Row]]:
    """The states by Iceberg's generic reader, which needs no Spark job."""
    java = JavaWriters(table)
    return lambda snapshot_id, _: java.rows_at(snapshot_id)


def types_of(changes: pa.Table) -> dict[str, int]:
    return dict(Counter(changes["_change_type"].to_pylist()))


def last_changes(table: SparkTable, **options: Any) -> pa.Table:
    return changes_of(table, table.snapshot_ids()[-2], **options)


@MODES
def test_whatever_column_an_update_changes_it_is_one_update(create_table: CreateTable, mode: str) -> None:
    table = created(create_table, mode)
    table.sql("UPDATE {table} SET v = 1 WHERE id < 3")
    table.sql("UPDATE {table} SET name = concat(name, 'x') WHERE id IN (2, 5)")
    table.sql("UPDATE {table} SET id = id + 100 WHERE id IN (2, 3, 9)")
    table.sql("UPDATE {table} SET id = null, name = null, v = null WHERE id = 7")
    table.sql("DELETE FROM {table} WHERE id IN (1, 102)")
    table.sql("INSERT INTO {table} VALUES (1, 'again', 9)")
    table.sql(
        "MERGE INTO {table} t USING (SELECT id, 'm' AS name FROM VALUES (0), (1), (4), (50) AS s(id)) s "
        "ON t.id = s.id WHEN MATCHED AND s.id = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET name = s.name "
        "WHEN NOT MATCHED THEN INSERT (id, name, v) VALUES (s.id, s.name, 5)"
    )
    found = check_row_ids(table)
    assert types_of(found) == {"INSERT": 12, "DELETE": 3, "UPDATE_BEFORE": 11, "UPDATE_AFTER": 11}
    check_ranges(table, state=by_java(table))


def test_of_equal_rows_only_the_changed_ones_are_reported(create_table: CreateTable) -> None:
    table = create_table("id bigint, name string", mode="merge-on-read", format_version=3)
    table.sql("INSERT INTO {table} SELECT /*+ COALESCE(1) */ id, 'a' FROM range(8)")
    table.sql("UPDATE {table} SET name = 'b' WHERE id IN (0, 2)")
    table.sql("DELETE FROM {table} WHERE id IN (2, 3)")
    table.sql("ALTER TABLE {table} DROP COLUMN id")
    table.sql("INSERT INTO {table} VALUES ('a')")
    assert typed_changes_of(changes_of(table)) == Counter(
        {
            ("INSERT", 0, "a"): 8,
            ("UPDATE_BEFORE", 1, "a"): 2,
            ("UPDATE_AFTER", 1, "b"): 2,
            ("DELETE", 2, "a"): 1,
            ("DELETE", 2, "b"): 1,
            ("INSERT", 3, "a"): 1,
        }
    )


def test_equal_rows_written_again_with_other_ids_are_no_change(create_table: CreateTable) -> None:
    table = created(create_table, "copy-on-write", rows=40)
    ids = rows_with_ids(table, table.snapshot_ids()[-1])
    table.sql("INSERT OVERWRITE {table} SELECT id, name, CASE WHEN id = 7 THEN 1 ELSE v END FROM {table}")
    assert not ids & rows_with_ids(table, table.snapshot_ids()[-1])
    assert typed_changes_of(last_changes(table), columns=["_change_type"]) == Counter(
        {("DELETE", 7, "n7", 0): 1, ("INSERT", 7, "n7", 1): 1}
    )
    check_ranges(table, state=by_java(table))


def test_rows_that_are_exchanged_are_no_change(create_table: CreateTable) -> None:
    table = create_table("v int", mode="merge-on-read", format_version=3)
    table.sql("INSERT INTO {table} SELECT /*+ COALESCE(1) */ CAST(id AS int) FROM range(4)")
    table.sql("UPDATE {table} SET v = 3 - v")
    assert last_changes(table).num_rows == 0
    table.sql("UPDATE {table} SET v = v + 1")
    # A chain of updates of which only the ends differ.
    assert weights_of(last_changes(table)) == Counter({(0,): -1, (4,): 1})
    check_ranges(table, identifier_columns=["v"], state=by_java(table))


def test_rows_of_before_the_upgrade_have_no_ids(create_table: CreateTable) -> None:
    table = created(create_table, "copy-on-write", format_version=2)
    table.sql("UPDATE {table} SET v = 1 WHERE id = 1")
    table.sql("ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = '3')")
    table.sql("UPDATE {table} SET v = 2 WHERE id IN (1, 2)")
    table.sql("INSERT INTO {table} VALUES (20, 'n20', 0), (21, 'n21', 0)")
    assert all(row[0] is not None for row in rows_with_ids(table, table.snapshot_ids()[-1]))
    table.sql("UPDATE {table} SET v = 3 WHERE id IN (1, 5, 20)")
    assert types_of(last_changes(table)) == {"UPDATE_BEFORE": 3, "UPDATE_AFTER": 3}
    found = changes_of(table)
    assert set(found.filter(pc.less(found["_change_ordinal"], 3))["_change_type"].to_pylist()) == {
        "INSERT", "DELETE",
    }  # fmt: skip
    check_ranges(table, state=by_java(table))


@MODES
def test_compaction_between_steps_takes_no_update_apart(create_table: CreateTable, mode: str) -> None:
    table = created(create_table, mode)
    table.sql("INSERT INTO {table} SELECT /*+ COALESCE(1) */ id, 'late', 0 FROM range(10, 15)")
    table.sql("UPDATE {table} SET v = 1 WHERE id IN (1, 12)")
    options = "map('min-input-files', '1', 'rewrite-all', 'true')"
    table.lab.sql(f"CALL lab.system.rewrite_data_files(table => '{table.identifier}', options => {options})")
    table.sql("UPDATE {table} SET v = 2 WHERE id IN (1, 2)")
    table.lab.sql(f"CALL lab.system.rewrite_manifests('{table.identifier}')")
    table.sql("UPDATE {table} SET v = 3 WHERE id IN (2, 12)")
    found = changes_of(table)
    assert types_of(found) == {"INSERT": 15, "UPDATE_BEFORE": 6, "UPDATE_AFTER": 6}
    assert weights_of(found) == table.rows_at(table.snapshot_ids()[-1])
    check_ranges(table, state=by_java(table))
