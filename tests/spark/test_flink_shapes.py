"""Tables as streaming writers leave them: equality deletes, position deletes and inserts of one key in one commit."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from spark.range_check import changes_of, check_ranges
from support.spark.flink_writer import UpsertTask, commit
from support.spark.java_writers import JavaWriters
from support.spark.row_counts import typed_changes_of
from support.spark.spark_table import SparkTable
from support.tiers import soak

pytestmark = pytest.mark.spark

CreateTable = Callable[..., SparkTable]
VERSIONS = pytest.mark.parametrize("format_version", [2, 3])


def typed(table: SparkTable, after: int, up_to: int) -> Counter[Any]:
    return typed_changes_of(changes_of(table, after, up_to), columns=["_change_type"])


@VERSIONS
def test_a_key_written_again_and_again_in_one_checkpoint_is_one_change(
    create_table: CreateTable, format_version: int
) -> None:
    table = create_table("id bigint NOT NULL, v string", format_version=format_version, identifier_fields=["id"])
    java = JavaWriters(table)
    task = UpsertTask(java, ["id"])
    for row in ((1, "a"), (2, "a"), (1, "b"), (3, "a"), (4, "a"), (1, "c")):
        task.upsert(*row)
    task.delete(4)
    first = commit(java, task)
    assert table.rows_at(first) == Counter([(1, "c"), (2, "a"), (3, "a")])
    task = UpsertTask(java, ["id"])
    for row in ((1, "d"), (5, "a"), (2, "a")):
        task.upsert(*row)
    task.delete(3)
    task.upsert(3, "back")
    task.delete(5)
    task.delete(1)
    task.upsert(6, "new")
    second = commit(java, task)
    assert typed(table, first, second) == Counter(
        [("DELETE", 1, "c"), ("UPDATE_BEFORE", 3, "a"), ("UPDATE_AFTER", 3, "back"), ("INSERT", 6, "new")]
    )
    check_ranges(table)


@VERSIONS
def test_without_upsert_mode_delete_files_hold_whole_rows(create_table: CreateTable, format_version: int) -> None:
    """Only the equality columns count: the others of a deleted row may be out of date."""
    table = create_table("id bigint NOT NULL, v string, w int", format_version=format_version)
    java = JavaWriters(table)
    task = UpsertTask(java, ["id"], whole_rows=True)
    for row in ((1, "a", 1), (2, "b", None), (3, None, 3)):
        task.insert(*row)
    commit(java, task)
    task = UpsertTask(java, ["id"], whole_rows=True)
    task.delete(1, "a", 1)
    task.insert(1, "A", 1)
    task.delete(1, "A", 1)
    task.insert(1, "AA", 1)
    task.delete(2, "stale", 7)
    last = commit(java, task)
    assert table.rows_at(last) == Counter([(1, "AA", 1), (3, None, 3)])
    check_ranges(table)


@VERSIONS
def test_several_tasks_of_one_commit_reach_each_others_older_rows(
    create_table: CreateTable, format_version: int
) -> None:
    """Kafka Connect: each task has files of its own, and the coordinator commits them together."""
    table = create_table("id bigint, v string", format_version=format_version)
    java = JavaWriters(table)
    for number in range(3):
        left, right = UpsertTask(java, ["id"]), UpsertTask(java, ["id"])
        for key in range(number, number + 3):
            left.upsert(2 * key, f"left {number}")
            right.upsert(2 * key + 1, f"right {number}")
        right.upsert(2 * number, "moved to the other task")
        left.upsert(2 * number + 2, "again")
        commit(java, left, right)
    check_ranges(table)


@VERSIONS
def test_compaction_between_checkpoints(create_table: CreateTable, format_version: int) -> None:
    table = create_table("id bigint, v int", format_version=format_version)
    java = JavaWriters(table)
    for number in range(2):
        task = UpsertTask(java, ["id"])
        for key in range(6):
            task.upsert(key, number)
        task.upsert(number, -number)
        commit(java, task)
    table.sql(
        f"CALL lab.system.rewrite_data_files(table => '{table.identifier}', "
        "options => map('rewrite-all', 'true', 'use-starting-sequence-number', 'true'))"
    )
    task = UpsertTask(java, ["id"])
    task.upsert(1, 7)
    task.delete(2)
    commit(java, task)
    check_ranges(table)


@pytest.mark.parametrize("seed", [0, soak(1), soak(2)])
def test_a_random_stream_of_upserts(create_table: CreateTable, seed: int) -> None:
    random = Random(seed)
    table = create_table("id bigint, v int", format_version=random.choice([2, 3]))
    java = JavaWriters(table)
    rows: dict[int, int] = {}
    for _ in range(5):
        task = UpsertTask(java, ["id"])
        for number in range(random.randrange(1, 12)):
            key = random.randrange(8)
            if random.random() < 0.3:
                task.delete(key)
                rows.pop(key, None)
            else:
                task.upsert(key, number % 3)
                rows[key] = number % 3
        commit(java, task)
    assert table.rows_at(table.snapshot_ids()[-1]) == Counter(rows.items())
    check_ranges(table)
