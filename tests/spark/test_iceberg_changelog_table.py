"""The cases of Iceberg's TestChangelogTable (1.11.0): the same commits, the same changes.

That class reads ``table.changes``, which keeps carry-over rows; here Iceberg's changelog view, which drops them, stands
beside `read_changes`. Where icefloe differs, docs/cases.md says why, under
"Where icefloe differs from create_changelog_view".

| Iceberg's test | here |
|---|---|
| testDataFilters | test_a_filter_leaves_the_ordinals_alone |
| testOverwrites | test_iceberg_changelog_scan.py |
| testQueryWithTimeRange | test_iceberg_changelog_view.py |
| testTimeRangeValidation | test_a_range_that_ends_before_it_begins_is_refused |
| testMetadataDeletes | test_a_partition_deleted_by_metadata_alone_is_read |
| testExistingEntriesInNewDataManifestsAreIgnored | test_iceberg_changelog_scan.py |
| testManifestRewritesAreIgnored | test_iceberg_changelog_scan.py |
| testMetadataColumns | none (differs): a change names no file and no position |
| testQueryWithRollback | test_rolled_back_commits_are_taken_back, test_a_branch_is_read_along_its_own_lineage,
  test_a_range_may_end_at_what_was_rolled_back (by time differ) |
| testChangelogViewOutsideTimeRange | test_iceberg_changelog_view.py |
"""

from collections import Counter
from typing import Any

import pytest

from icefloe.errors import UsageError
from spark.iceberg_changelog import agreed, changes_of, committed_ms, counted, insert, overwrite_partitions, view_of
from support.spark.spark_table import CreateTable, SparkTable

pytestmark = pytest.mark.spark


@pytest.fixture
def empty(create_table: CreateTable) -> SparkTable:
    """Iceberg's table of these cases, by partitions of ``data``."""
    return create_table("id int, data string", partitioned_by="data")


@pytest.fixture
def table(empty: SparkTable) -> SparkTable:
    """Two commits of one row."""
    insert(empty, (1, "a"))
    insert(empty, (2, "b"))
    return empty


def test_a_filter_leaves_the_ordinals_alone(table: SparkTable) -> None:
    insert(table, (3, "c"))
    table.sql("DELETE FROM {table} WHERE id = 3")
    *_, snap3, snap4 = table.snapshot_ids()
    expected = Counter([("INSERT", 2, snap3, 3, "c"), ("DELETE", 3, snap4, 3, "c")])
    assert changes_of(table, filter="id = 3") == expected
    assert counted(table.sql("SELECT * FROM {table}.changes WHERE id = 3")) == expected


def test_a_range_that_ends_before_it_begins_is_refused(table: SparkTable) -> None:
    first, second = committed_ms(table)
    with pytest.raises(UsageError, match="before it begins"):
        changes_of(table, after_ms=second, up_to_ms=first)
    with pytest.raises(Exception, match="Cannot set start-timestamp to be greater than end-timestamp"):
        view_of(table, after_ms=second, up_to_ms=first)


def test_a_partition_deleted_by_metadata_alone_is_read(table: SparkTable) -> None:
    table.sql("DELETE FROM {table} WHERE data = 'a'")
    _, snap2, snap3 = table.snapshot_ids()
    assert table.load().current_snapshot().summary.operation.value == "delete"
    assert agreed(table, snap2, snap3) == Counter([("DELETE", 0, snap3, 1, "a")])


@pytest.fixture
def rolled_back(empty: SparkTable) -> tuple[SparkTable, list[int], list[int]]:
    """Snapshot 2 was rolled back to snapshot 1, and snapshot 3 followed; the ids and times of the three."""
    insert(empty, (1, "a"))
    insert(empty, (2, "b"))
    snapshot_ids, times = empty.snapshot_ids(), committed_ms(empty)
    empty.lab.sql(f"CALL lab.system.rollback_to_snapshot('{empty.identifier}', {snapshot_ids[0]})")
    overwrite_partitions(empty, (-2, "a"))
    return empty, [*snapshot_ids, empty.snapshot_ids()[-1]], [*times, committed_ms(empty)[-1]]


def test_a_branch_is_read_along_its_own_lineage(rolled_back: Any) -> None:
    table, (snap1, snap2, snap3), (time1, _, time3) = rolled_back
    first = ("INSERT", 0, snap1, 1, "a")
    assert agreed(table, up_to_ms=time3 + 1) == Counter(
        [first, ("DELETE", 1, snap3, 1, "a"), ("INSERT", 1, snap3, -2, "a")]
    )
    assert agreed(table, after_ms=time1 + 1, up_to_ms=time3) == Counter(
        [("DELETE", 0, snap3, 1, "a"), ("INSERT", 0, snap3, -2, "a")]
    )
    table.lab.sql(f"CALL lab.system.set_current_snapshot('{table.identifier}', {snap2})")
    assert agreed(table, after_ms=time1 + 1) == Counter([("INSERT", 0, snap2, 2, "b")])


def test_rolled_back_commits_are_taken_back(rolled_back: Any) -> None:
    table, (snap1, _, snap3), (_, time2, _) = rolled_back
    last = [("DELETE", 1, snap3, 1, "a"), ("INSERT", 1, snap3, -2, "a")]
    assert changes_of(table, after_ms=time2 + 1) == Counter([("DELETE", 0, snap1, 2, "b"), *last])
    # Iceberg's view forgets snapshot 2: whoever had read it keeps a row that the table has not.
    assert view_of(table, after_ms=time2 + 1) == Counter([("DELETE", 0, snap3, 1, "a"), ("INSERT", 0, snap3, -2, "a")])


def test_a_range_may_end_at_what_was_rolled_back(rolled_back: Any) -> None:
    table, (snap1, snap2, _), (_, time2, _) = rolled_back
    first = ("INSERT", 0, snap1, 1, "a")
    both = Counter([first, ("INSERT", 1, snap2, 2, "b")])
    assert agreed(table, up_to=snap2) == both
    # A time means the snapshot that was current then; to Iceberg's view the last one of today's lineage.
    assert changes_of(table, up_to_ms=time2 + 1) == both
    assert view_of(table, up_to_ms=time2 + 1) == Counter([first])
