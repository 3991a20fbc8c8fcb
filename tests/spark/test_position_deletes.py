"""Position deletes and deletion vectors as many writers leave them: every range against the states that Spark reads."""

from collections import Counter
from typing import Any

import pytest

from spark.range_check import changes_of, check_ranges
from support.spark.java_writers import JavaWriters
from support.spark.spark_table import CreateTable

pytestmark = pytest.mark.spark


def in_force(java: JavaWriters) -> list[int]:
    """The number of delete files in force on each data file of the head."""
    return [len(task.deletes()) for task in java.scan_tasks()]


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
