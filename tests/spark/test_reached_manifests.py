"""The number of manifests that a plan reads, for tables with delete files of Spark and Iceberg's writers."""

from collections.abc import Callable

import pytest

from icefloe.api import read_changes
from support.spark.row_counts import difference, weights_of
from support.spark.spark_table import SparkTable
from support.tables.planning_tables import plan_range, plan_scan_tasks

pytestmark = pytest.mark.spark

CreateTable = Callable[..., SparkTable]
DAYS = 6


@pytest.mark.parametrize("format_version", [2, 3])
def test_deletes_of_one_partition_need_the_manifest_of_its_files_only(
    create_table: CreateTable, format_version: int
) -> None:
    table = create_table(
        "id bigint, day date", mode="merge-on-read", format_version=format_version, partitioned_by="day",
        properties={"commit.manifest-merge.enabled": "false"},
    )  # fmt: skip
    for day in range(1, DAYS + 1):
        table.sql(f"INSERT INTO {{table}} SELECT id, DATE '2026-11-0{day}' FROM range(0, 10, 1, 1)")
    table.sql("DELETE FROM {table} WHERE day = DATE '2026-11-03' AND id < 4")
    *_, before, after = table.snapshot_ids()
    loaded = table.load()
    plan = plan_scan_tasks(loaded, plan_range(loaded, after_snapshot_id=before).steps)
    assert len(plan.tasks) == 1
    # The delete manifest, and the data manifest of that day.
    assert plan.manifests_read == 2
    changes = read_changes(loaded, after_snapshot_id=before).read_all()
    assert weights_of(changes) == difference(table.rows_at(before), table.rows_at(after))
