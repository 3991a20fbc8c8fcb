"""The forecast of expiry, compared with Iceberg's own expire_snapshots."""

import time

import pytest

from icefloe.api import read_changes
from icefloe.iceberg.history.history import ExpiredHistoryError, History
from support.pages.claims import Kind, claimed
from support.spark.java_writers import JavaWriters
from support.spark.spark_lab import CATALOG
from support.spark.spark_table import CreateTable, SparkTable

pytestmark = pytest.mark.spark

EXPIRY = {"history.expire.max-snapshot-age-ms": "1", "history.expire.min-snapshots-to-keep": "2"}
DAY_MS = 86_400_000


def commits(table: SparkTable, count: int) -> list[int]:
    """Snapshot ids, oldest first."""
    java = JavaWriters(table)
    for number in range(count):
        java.append(java.data_files([(number,)]))
    return snapshot_ids(table)


def snapshot_ids(table: SparkTable) -> list[int]:
    return [snapshot.snapshot_id for snapshot in table.load().metadata.snapshots]


def test_the_removed_snapshots_are_the_forecast_ones(create_table: CreateTable) -> None:
    table = create_table("id bigint", properties=EXPIRY)
    ids = commits(table, 8)
    table.sql(f"ALTER TABLE {{table}} CREATE TAG kept AS OF VERSION {ids[0]} RETAIN 365 DAYS")
    table.sql(f"ALTER TABLE {{table}} CREATE BRANCH audit AS OF VERSION {ids[3]} WITH SNAPSHOT RETENTION 2 SNAPSHOTS")
    table.sql(f"CALL {CATALOG}.system.rollback_to_snapshot('{table.identifier}', {ids[6]})")
    metadata = table.load().metadata
    history = History.of(table.load())
    forecast = {snapshot_id: history.next_expiry_ms(snapshot_id) for snapshot_id in ids}
    now_ms = time.time() * 1000
    kept = [snapshot_id for snapshot_id, at_ms in forecast.items() if at_ms is None or at_ms > now_ms]
    assert kept == [ids[place] for place in (0, 2, 3, 5, 6)]
    tagged_ms = metadata.snapshots[0].timestamp_ms
    assert forecast[ids[0]] == tagged_ms + 365 * DAY_MS

    table.sql(f"CALL {CATALOG}.system.expire_snapshots('{table.identifier}')")

    assert snapshot_ids(table) == kept


def test_a_branch_at_the_head_holds_what_a_pipeline_has_still_to_read(create_table: CreateTable) -> None:
    table = create_table("id bigint", properties=EXPIRY)
    ids = commits(table, 6)
    [hold] = [block for block in claimed(Kind.PYTHON) if "create_branch" in block.text]
    exec(hold.text, {"table": table.load()})
    table.sql(f"CALL {CATALOG}.system.expire_snapshots('{table.identifier}')")
    assert snapshot_ids(table) == ids
    assert read_changes(table.load(), after_snapshot_id=ids[1]).read_all()["id"].to_pylist() == [2, 3, 4, 5]

    table.sql("ALTER TABLE {table} DROP BRANCH icefloe_hold")
    table.sql(f"ALTER TABLE {{table}} CREATE TAG cursor AS OF VERSION {ids[1]} RETAIN 365 DAYS")
    table.sql(f"CALL {CATALOG}.system.expire_snapshots('{table.identifier}')")
    with pytest.raises(ExpiredHistoryError, match="; others expired, never existed"):
        read_changes(table.load(), after_snapshot_id=ids[1])
