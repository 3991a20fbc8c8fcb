"""Snapshots that one commit published together, and such that only look like it."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from icefloe.batch.verify.verify_batches import verify_batches
from spark.moving_table import followed
from spark.range_check import changes_of, check_ranges
from support.spark.java_rows import JavaStates
from support.spark.java_writers import JavaWriters
from support.spark.spark_table import CreateTable, SparkTable

pytestmark = pytest.mark.spark


def rows(*ids: int, v: int = 0, part: str = "a") -> pa.Table:
    schema = pa.schema([("id", pa.int64()), ("v", pa.int32()), ("part", pa.string())])
    return pa.table({"id": ids, "v": [v] * len(ids), "part": [part] * len(ids)}, schema=schema)


@pytest.fixture
def table(create_table: CreateTable) -> SparkTable:
    """Two files that Spark wrote; PyIceberg can write no V3 table."""
    made = create_table("id bigint, v int, part string")
    made.append(rows(*range(10)))
    made.append(rows(*range(10, 13)))
    return made


def committed(table: SparkTable, write: Callable[[Table], object]) -> list[int]:
    """The snapshots that a call of PyIceberg made, oldest first; they are the newest of the lineage."""
    before = len(table.snapshot_ids())
    write(table.load())
    return table.snapshot_ids()[before:]


def check_every_range(table: SparkTable, *commits: list[int]) -> None:
    states = cache(JavaStates(table).rows_at)
    check_ranges(table, commits=commits, state=lambda snapshot_id, _: states(snapshot_id))


def test_a_rewrite_at_the_end_of_a_transaction_leaves_the_step_its_own_snapshot(create_table: CreateTable) -> None:
    table = create_table("id bigint, v int")
    java = JavaWriters(table)
    old = java.data_files([(1, 0), (2, 0)])
    java.append(old)
    with java.transaction() as transaction:
        appended = transaction.append(java.data_files([(3, 0)]))
        transaction.rewrite(removed=old, added=java.data_files([(1, 0), (2, 0)]))
    java.append(java.data_files([(4, 0)]))
    first, *_, last = table.snapshot_ids()
    found = changes_of(table, first)
    assert sorted(zip(found["_change_ordinal"].to_pylist(), found["_commit_snapshot_id"].to_pylist(), strict=True)) == [
        (0, appended), (1, last)
    ]  # fmt: skip


@pytest.mark.parametrize("moved_on", [False, True], ids=["a fast forward", "a new snapshot"])
def test_a_staged_commit_is_a_step_when_it_is_published(table: SparkTable, moved_on: bool) -> None:
    before = table.snapshot_ids()[-1]
    table.sql("ALTER TABLE {table} SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
    spark = table.lab.spark
    for wap_id in ("one", "two"):
        spark.conf.set("spark.wap.id", wap_id)
        table.sql(f"INSERT INTO {{table}} VALUES (4{len(wap_id)}, 0, '{wap_id}')")
    spark.conf.unset("spark.wap.id")
    assert changes_of(table, before).num_rows == 0
    if moved_on:
        table.sql("INSERT INTO {table} VALUES (50, 0, 'a')")
    for wap_id in ("one", "two"):
        table.lab.sql(f"CALL lab.system.publish_changes('{table.identifier}', '{wap_id}')")
    lineage = table.snapshot_ids()
    assert len(lineage) == 4 + moved_on
    check_every_range(table)
    found = changes_of(table, before)
    assert sorted(set(found["_change_ordinal"].to_pylist())) == list(range(2 + moved_on))


def test_snapshots_before_the_end_of_the_log_are_split_and_the_plan_says_so(table: SparkTable, tmp_path: Path) -> None:
    table.sql("ALTER TABLE {table} SET TBLPROPERTIES ('write.metadata.previous-versions-max' = '2')")
    before = table.snapshot_ids()[-1]
    old = committed(table, lambda loaded: loaded.upsert(rows(2, 50, v=1), ["id"]))
    for number in range(3):
        table.append(rows(100 + number))
    new = committed(table, lambda loaded: loaded.upsert(rows(3, 51, v=1), ["id"]))
    check_every_range(table, new)
    workshop = followed(table, tmp_path, initial_load="from_earliest")
    batch = workshop.open()
    assert [step.snapshot_ids for step in batch.plan.spec.steps if step.end_snapshot_id in old] == [
        (each,) for each in old
    ]
    [warning] = [each for each in batch.plan.warnings if "committed together" in each]
    assert f"between {table.snapshot_ids()[0]} and" in warning
    assert warning in batch.deliver().warnings
    assert verify_batches(workshop.session()).is_equal
    assert changes_of(table, before, old[-1])["_change_ordinal"].to_pylist()
