"""Position deletes and deletion vectors as many writers leave them: every range against the states that Spark reads."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from spark.range_check import changes_of, check_ranges
from support.spark.java_writers import JavaWriters
from support.spark.spark_table import SparkTable

pytestmark = pytest.mark.spark

CreateTable = Callable[..., SparkTable]


def in_force(java: JavaWriters) -> list[int]:
    """The number of delete files in force on each data file of the head."""
    return [len(live.delete_files) for live in java.live_files()]


def ids_of(rows: Counter[tuple[Any, ...]]) -> list[Any]:
    return sorted(row[0] for row in rows.elements())


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_several_delete_files_of_one_data_file_may_name_the_same_position(
    create_table: CreateTable, granularity: str
) -> None:
    table = create_table("id bigint")
    java = JavaWriters(table)
    files = [*java.data_files([(n,) for n in range(6)]), *java.data_files([(n,) for n in range(10, 14)])]
    java.append(files)
    first, second = files
    for positions in ({first: [1, 2], second: [0]}, {first: [2, 3]}, {first: [3, 1], second: [0, 1]}, {second: [1]}):
        java.row_delta(deletes=java.position_deletes(positions, granularity=granularity))
    assert in_force(java) == [3, 3] if granularity == "file" else [4, 4]
    check_ranges(table)
    assert changes_of(table, *table.snapshot_ids()[-2:]).num_rows == 0


def test_older_position_deletes_do_not_count_if_there_is_a_vector(create_table: CreateTable) -> None:
    """The spec lets readers ignore them; a writer that did not take them over so brings rows back."""
    table = create_table("id bigint")
    java = JavaWriters(table)
    [file], [other] = java.data_files([(1,), (2,), (3,)]), java.data_files([(4,), (5,)])
    java.append([file, other])
    java.row_delta(deletes=java.position_deletes({file: [0], other: [0]}, granularity="partition"))
    table.sql("ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = '3')")
    last = java.row_delta(deletes=java.deletion_vectors({file: [2]}, merge=False).added)
    assert ids_of(table.rows_at(last)) == [1, 2, 5]
    check_ranges(table)


def test_positions_in_files_of_many_row_groups(create_table: CreateTable) -> None:
    properties = {"write.parquet.row-group-size-bytes": "4096"}
    table = create_table("id bigint, name string", format_version=3, properties=properties)
    java = JavaWriters(table)
    [file] = java.data_files([(n, f"name {n}" * 4) for n in range(1200)])
    assert len(file.splitOffsets()) > 2
    java.append([file])
    for positions in ([0, 99, 100, 101, 1199], range(200, 600), range(1, 1200, 7)):
        vectors = java.deletion_vectors({file: positions})
        java.row_delta(deletes=vectors.added, removed_deletes=vectors.rewritten)
    check_ranges(table)


def test_a_file_that_comes_back_is_free_of_its_old_deletes(create_table: CreateTable) -> None:
    """A position delete counts for data of its sequence number or an older one."""
    table = create_table("id bigint")
    java = JavaWriters(table)
    [file], [other] = java.data_files([(1,), (2,), (3,)]), java.data_files([(4,), (5,)])
    java.append([file, other])
    java.row_delta(deletes=java.position_deletes({file: [0], other: [1]}, granularity="partition"))
    java.delete([file])
    last = java.append([file])
    assert ids_of(table.rows_at(last)) == [1, 2, 3, 4]
    java.row_delta(deletes=java.position_deletes({file: [1]}))
    check_ranges(table)


def test_a_file_that_a_table_lists_twice_is_deleted_from_twice(create_table: CreateTable) -> None:
    table = create_table("id bigint")
    java = JavaWriters(table)
    [file] = java.data_files([(1,), (2,), (3,)])
    java.append([file])
    java.row_delta(deletes=java.equality_deletes(["id"], [(1,)]))
    last = java.append([file])
    assert table.rows_at(last) == Counter({(1,): 1, (2,): 2, (3,): 2})
    java.row_delta(deletes=java.position_deletes({file: [1]}))
    java.row_delta(deletes=java.equality_deletes(["id"], [(1,)]))
    check_ranges(table)


def test_partitions_of_nan_null_and_negative_zero(create_table: CreateTable) -> None:
    table = create_table("id bigint, part double", partitioned_by="part")
    java = JavaWriters(table)
    parts = [float("nan"), None, 0.0, -0.0]
    files = [file for number, part in enumerate(parts) for file in java.data_files([(number, part), (9, part)])]
    java.append(files)
    for file in files:
        java.row_delta(deletes=java.position_deletes({file: [0]}, granularity="partition"))
    for file in files[:2]:
        java.row_delta(deletes=java.equality_deletes(["id"], [(9,)], partition_of=file))
    assert len(ids_of(table.rows_at(table.snapshot_ids()[-1]))) == 2
    check_ranges(table)


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


VARIANTS = [
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


def test_a_vector_of_an_upgraded_table_takes_over_old_position_deletes(create_table: CreateTable) -> None:
    table = create_merge_on_read(create_table, granularity="partition")
    insert(table, 0, 10)
    insert(table, 10, 20)
    table.sql("DELETE FROM {table} WHERE id IN (1, 2, 11, 12)")
    table.sql("ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = '3')")
    table.sql("DELETE FROM {table} WHERE id IN (3, 4)")
    table.sql("UPDATE {table} SET v = 7 WHERE id IN (5, 13)")
    formats = {file.format().name() for live in JavaWriters(table).live_files() for file in live.delete_files}
    assert "PUFFIN" in formats
    check_ranges(table)
