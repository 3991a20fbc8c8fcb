"""Position deletes and deletion vectors: every range of every history against the states that Spark reads."""

from collections import Counter
from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest

from spark.range_check import changes_of, check_range, check_ranges
from support.spark.java_writers import JavaWriters
from support.spark.row_counts import difference, weights_of
from support.spark.spark_table import SparkTable
from support.tiers import soak

pytestmark = pytest.mark.spark

CreateTable = Callable[..., SparkTable]
COLUMNS = "id bigint, name string, v int"


def create_merge_on_read(
    create_table: CreateTable, format_version: int = 2, *, granularity: str = "file", **arguments: Any
) -> SparkTable:
    properties = {"write.delete.granularity": granularity}
    columns = arguments.pop("columns", COLUMNS)
    return create_table(
        columns, mode="merge-on-read", format_version=format_version, properties=properties, **arguments
    )


def insert(table: SparkTable, start: int, stop: int) -> None:
    """One file of rows, in the order of their ids."""
    table.sql(
        f"INSERT INTO {{table}} SELECT /*+ COALESCE(1) */ id, concat('n', id), 0 FROM range({start}, {stop}, 1, 1)"
    )


def summary_of(table: SparkTable, snapshot_id: int) -> dict[str, str]:
    snapshot = table.load().snapshot_by_id(snapshot_id)
    assert snapshot is not None
    assert snapshot.summary is not None
    return snapshot.summary.additional_properties


def in_force(java: JavaWriters) -> list[int]:
    """The number of delete files in force on each data file of the head."""
    return [len(live.delete_files) for live in java.live_files()]


VARIANTS = [
    pytest.param(2, "file", None, id="V2 by file"),
    pytest.param(2, "partition", "v", id="V2 by partition, partitioned"),
    pytest.param(3, "file", "bucket(2, id)", id="V3"),
]


@pytest.mark.parametrize(("format_version", "granularity", "partitioned_by"), VARIANTS)
def test_deletes_updates_and_merges_of_spark(
    create_table: CreateTable, format_version: int, granularity: str, partitioned_by: str | None
) -> None:
    table = create_merge_on_read(create_table, format_version, granularity=granularity, partitioned_by=partitioned_by)
    insert(table, 0, 20)
    insert(table, 20, 30)
    table.sql("DELETE FROM {table} WHERE id IN (3, 5, 22)")
    table.sql("UPDATE {table} SET v = 1, name = 'u' WHERE id BETWEEN 4 AND 8")
    table.sql(
        "MERGE INTO {table} t USING (SELECT id, 'm' AS name, 2 AS v FROM range(7, 12) UNION ALL SELECT 50, 'm', 2) s "
        "ON t.id = s.id WHEN MATCHED AND s.id = 9 THEN DELETE WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    table.sql("DELETE FROM {table} WHERE v = 1 OR id = 21")
    assert any(in_force(JavaWriters(table)))
    check_ranges(table)


def test_a_second_delete_rewrites_the_delete_file_of_the_first(create_table: CreateTable) -> None:
    table = create_merge_on_read(create_table)
    insert(table, 0, 10)
    table.sql("DELETE FROM {table} WHERE id IN (1, 2)")
    table.sql("DELETE FROM {table} WHERE id IN (7, 8)")
    last = table.snapshot_ids()[-1]
    assert summary_of(table, last)["removed-position-deletes"] == "2"
    assert summary_of(table, last)["added-position-deletes"] == "4"
    check_ranges(table)


@pytest.mark.parametrize("upgraded_granularity", ["file", "partition"])
def test_a_vector_of_an_upgraded_table_takes_over_old_position_deletes(
    create_table: CreateTable, upgraded_granularity: str
) -> None:
    table = create_merge_on_read(create_table, granularity=upgraded_granularity)
    insert(table, 0, 10)
    insert(table, 10, 20)
    table.sql("DELETE FROM {table} WHERE id IN (1, 2, 11, 12)")
    table.sql("ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = '3')")
    table.sql("DELETE FROM {table} WHERE id IN (3, 4)")
    table.sql("UPDATE {table} SET v = 7 WHERE id IN (5, 13)")
    formats = {file.format().name() for live in JavaWriters(table).live_files() for file in live.delete_files}
    assert "PUFFIN" in formats
    check_ranges(table)


@pytest.mark.parametrize("format_version", [soak(2), 3])
def test_copy_on_write_over_files_with_deletes_in_force(create_table: CreateTable, format_version: int) -> None:
    table = create_merge_on_read(create_table, format_version)
    insert(table, 0, 12)
    insert(table, 12, 20)
    table.sql("DELETE FROM {table} WHERE id IN (1, 2, 13)")
    modes = ", ".join(f"'write.{verb}.mode' = 'copy-on-write'" for verb in ("delete", "update", "merge"))
    table.sql(f"ALTER TABLE {{table}} SET TBLPROPERTIES ({modes})")
    table.sql("UPDATE {table} SET v = 3 WHERE id IN (4, 14)")
    table.sql("DELETE FROM {table} WHERE id = 5")
    table.sql("INSERT OVERWRITE {table} SELECT id, name, v + 1 FROM {table} WHERE id < 15")
    table.sql("DELETE FROM {table} WHERE id < 100")
    check_ranges(table)


@pytest.mark.parametrize("format_version", [2, soak(3)])
def test_data_is_compacted_and_deletes_with_it(create_table: CreateTable, format_version: int) -> None:
    table = create_merge_on_read(create_table, format_version)
    insert(table, 0, 10)
    insert(table, 10, 20)
    table.sql("DELETE FROM {table} WHERE id IN (1, 11)")
    table.sql("UPDATE {table} SET v = 1 WHERE id IN (2, 12)")
    table.sql(
        f"CALL lab.system.rewrite_data_files(table => '{table.identifier}', "
        "options => map('rewrite-all', 'true', 'remove-dangling-deletes', 'true'))"
    )
    assert sum(in_force(JavaWriters(table))) == 0
    table.sql("DELETE FROM {table} WHERE id IN (3, 13)")
    check_ranges(table)


def test_position_delete_files_are_compacted(create_table: CreateTable) -> None:
    table = create_merge_on_read(create_table, granularity="partition")
    insert(table, 0, 10)
    insert(table, 10, 20)
    for deleted in ("1, 11", "2, 12", "3"):
        table.sql(f"DELETE FROM {{table}} WHERE id IN ({deleted})")
    before = in_force(JavaWriters(table))
    table.sql(
        f"CALL lab.system.rewrite_position_delete_files(table => '{table.identifier}', "
        "options => map('rewrite-all', 'true'))"
    )
    assert in_force(JavaWriters(table)) == [1, 1] != before
    table.sql("DELETE FROM {table} WHERE id IN (4, 14)")
    check_ranges(table)


def test_deletes_in_an_old_partition_spec(create_table: CreateTable) -> None:
    table = create_merge_on_read(create_table, partitioned_by="v", granularity="partition")
    insert(table, 0, 10)
    table.sql("DELETE FROM {table} WHERE id = 1")
    table.sql("ALTER TABLE {table} ADD PARTITION FIELD bucket(2, id)")
    insert(table, 10, 20)
    table.sql("DELETE FROM {table} WHERE id IN (2, 11)")
    table.sql("ALTER TABLE {table} DROP PARTITION FIELD v")
    table.sql("UPDATE {table} SET v = 5 WHERE id IN (3, 12)")
    table.sql("ALTER TABLE {table} DROP PARTITION FIELD bucket(2, id)")
    table.sql("DELETE FROM {table} WHERE v = 5 OR id = 4")
    assert {file.specId() for live in JavaWriters(table).live_files() for file in live.delete_files} >= {0, 1}
    check_ranges(table)


def test_the_schema_moves_while_deletes_are_in_force(create_table: CreateTable) -> None:
    table = create_merge_on_read(create_table)
    insert(table, 0, 10)
    table.sql("DELETE FROM {table} WHERE id = 1")
    table.sql("ALTER TABLE {table} RENAME COLUMN name TO title")
    table.sql("ALTER TABLE {table} ADD COLUMN name string")
    table.sql("UPDATE {table} SET name = title WHERE id = 2")
    table.sql("ALTER TABLE {table} DROP COLUMN title")
    table.sql("ALTER TABLE {table} ALTER COLUMN v TYPE bigint")
    table.sql("DELETE FROM {table} WHERE id IN (2, 3)")
    check_ranges(table)


@pytest.mark.parametrize("format_version", [soak(2), 3])
def test_a_rollback_brings_deleted_rows_back(create_table: CreateTable, format_version: int) -> None:
    table = create_merge_on_read(create_table, format_version)
    insert(table, 0, 10)
    table.sql("DELETE FROM {table} WHERE id IN (1, 2)")
    table.sql("DELETE FROM {table} WHERE id IN (3, 4)")
    table.sql("UPDATE {table} SET v = 9 WHERE id = 5")
    first, second, third, left = table.snapshot_ids()
    states = {each: table.rows_at(each) for each in (first, second, third, left)}
    for target in (third, second, first):
        table.sql(f"CALL lab.system.set_current_snapshot('{table.identifier}', {target})")
        for identity in ([], ["id"]):
            check_range(changes_of(table, left, identifier_columns=identity), states, [left, target], identity)
    table.sql("DELETE FROM {table} WHERE id IN (1, 7)")
    last = table.snapshot_ids()[-1]
    states[last] = table.rows_at(last)
    for start in (left, third):
        check_range(changes_of(table, start, identifier_columns=["id"]), states, [start, first, last], ["id"])


def test_net_changes_where_deletes_are_in_force(create_table: CreateTable) -> None:
    table = create_merge_on_read(create_table, 3)
    insert(table, 0, 8)
    table.sql("DELETE FROM {table} WHERE id IN (1, 2)")
    table.sql("UPDATE {table} SET v = 1 WHERE id IN (3, 4)")
    table.sql("UPDATE {table} SET v = 0 WHERE id = 3")
    table.sql("INSERT INTO {table} VALUES (1, 'n1', 0), (2, 'n2', 7)")
    table.sql("DELETE FROM {table} WHERE id = 7")
    lineage = table.snapshot_ids()
    for after in lineage[:-1]:
        states = {each: table.rows_at(each) for each in (after, lineage[-1])}
        for identity in (["id"], []):
            found = changes_of(table, after, identifier_columns=identity, changes="net")
            assert weights_of(found) == difference(states[after], states[lineage[-1]])
    found = changes_of(table, lineage[0], identifier_columns=["id"], changes="net")
    assert Counter(zip(found["id"].to_pylist(), found["_change_type"].to_pylist(), strict=True)) == Counter(
        [(number, kind) for number in (2, 4) for kind in ("UPDATE_BEFORE", "UPDATE_AFTER")] + [(7, "DELETE")]
    )


def test_selected_columns_and_a_filter_where_deletes_are_in_force(create_table: CreateTable) -> None:
    table = create_merge_on_read(create_table)
    insert(table, 0, 10)
    table.sql("DELETE FROM {table} WHERE id IN (1, 2)")
    table.sql("UPDATE {table} SET v = 1, name = 'x' WHERE id IN (3, 4, 8)")
    JavaWriters(table).row_delta(deletes=JavaWriters(table).equality_deletes(["id"], [(4,), (5,)]))
    lineage = table.snapshot_ids()

    def seen(snapshot_id: int) -> Counter[Any]:
        return Counter([(name, v) for id_, name, v in table.rows_at(snapshot_id).elements() if int(str(id_)) < 7])

    states = {each: seen(each) for each in lineage}
    for after, up_to in combinations(lineage, 2):
        ends = lineage[lineage.index(after) : lineage.index(up_to) + 1]
        check_range(changes_of(table, after, up_to, columns=["name", "v"], filter="id < 7"), states, ends, [])


def test_row_ids_make_an_update_of_what_a_vector_took_out(create_table: CreateTable) -> None:
    table = create_merge_on_read(create_table, 3)
    insert(table, 0, 10)
    table.sql("UPDATE {table} SET id = id + 100 WHERE id IN (3, 4)")
    table.sql("DELETE FROM {table} WHERE id = 5")
    found = changes_of(table, table.snapshot_ids()[0])
    assert Counter(found["_change_type"].to_pylist()) == {"UPDATE_BEFORE": 2, "UPDATE_AFTER": 2, "DELETE": 1}
    check_ranges(table)
