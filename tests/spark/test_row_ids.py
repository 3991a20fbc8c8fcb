"""V3 tables without identifier columns: row ids make updates of the changes of one step."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow.compute as pc
import pytest

from spark.moving_table import compact
from spark.range_check import changes_of, check_ranges, last_changes, types_of
from support.spark.java_writers import JavaWriters
from support.spark.row_counts import Row, typed_changes_of, weights_of
from support.spark.spark_table import CreateTable, SparkTable

pytestmark = pytest.mark.spark


COLUMNS = "id bigint, name string, v int"


def created(create_table: CreateTable, mode: str, rows: int = 10, **arguments: Any) -> SparkTable:
    table = create_table(COLUMNS, mode=mode, **{"format_version": 3, **arguments})
    table.sql(f"INSERT INTO {{table}} SELECT /*+ COALESCE(1) */ id, concat('n', id), 0 FROM range({rows})")
    return table


def by_java(table: SparkTable) -> Callable[[int | None, int], Counter[Row]]:
    """The states by Iceberg's generic reader, which needs no Spark job."""
    java = JavaWriters(table)
    return lambda snapshot_id, _: java.rows_at(snapshot_id)


def test_equal_rows_written_again_with_other_ids_are_no_change(create_table: CreateTable) -> None:
    table = created(create_table, "copy-on-write", rows=40)
    table.sql("INSERT OVERWRITE {table} SELECT id, name, CASE WHEN id = 7 THEN 1 ELSE v END FROM {table}")
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
    table.sql("UPDATE {table} SET v = 3 WHERE id IN (1, 5, 20)")
    assert types_of(last_changes(table)) == {"UPDATE_BEFORE": 3, "UPDATE_AFTER": 3}
    found = changes_of(table)
    assert set(found.filter(pc.less(found["_change_ordinal"], 3))["_change_type"].to_pylist()) == {
        "INSERT", "DELETE",
    }  # fmt: skip
    check_ranges(table, state=by_java(table))


def test_compaction_between_steps_takes_no_update_apart(create_table: CreateTable) -> None:
    table = created(create_table, "copy-on-write")
    table.sql("INSERT INTO {table} SELECT /*+ COALESCE(1) */ id, 'late', 0 FROM range(10, 15)")
    table.sql("UPDATE {table} SET v = 1 WHERE id IN (1, 12)")
    compact(table, "rewrite_data_files")
    table.sql("UPDATE {table} SET v = 2 WHERE id IN (1, 2)")
    compact(table, "rewrite_manifests")
    table.sql("UPDATE {table} SET v = 3 WHERE id IN (2, 12)")
    found = changes_of(table)
    assert types_of(found) == {"INSERT": 15, "UPDATE_BEFORE": 6, "UPDATE_AFTER": 6}
    assert weights_of(found) == table.rows_at(table.snapshot_ids()[-1])
    check_ranges(table, state=by_java(table))
