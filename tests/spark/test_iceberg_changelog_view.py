"""The cases of Iceberg's TestCreateChangelogViewProcedure (1.11.0): the same commits, the same changes.

Each is told by `read_changes` and by the procedure itself, side by side. Where icefloe differs, docs/cases.md says
why, under "Where icefloe differs from create_changelog_view".

| Iceberg's test | here |
|---|---|
| testCustomizedViewName | test_either_bound_may_be_left_out |
| testNonStandardColumnNames | test_column_names_with_spaces_and_dots |
| testNoSnapshotIdInput, testOnlyStartSnapshotIdInput, testOnlyEndTimestampIdInput | test_either_bound_may_be_left_out |
| testTimestampsBasedQuery, testOnlyStartTimestampInput, testOnlyEndTimestampInput | test_times_bound_either_end |
| testStartTimeStampEndSnapshotId,
  testStartSnapshotIdEndTimestamp | test_a_time_bounds_one_end_and_a_snapshot_the_other |
| testUpdate | test_an_overwritten_row_is_an_update_by_the_columns_named |
| testUpdateWithIdentifierField | test_an_overwritten_row_is_an_update_by_the_identifier_fields_of_the_table |
| testUpdateWithFilter | test_updates_with_a_filter |
| testUpdateWithMultipleIdentifierColumns | test_an_identity_of_two_columns |
| testRemoveCarryOvers | test_carry_over_rows_are_removed_next_to_updates |
| testRemoveCarryOversWithoutUpdatedRows | test_net_changes_of_whole_rows |
| testNetChangesWithRemoveCarryOvers | test_net_changes_of_whole_rows (one ordinal differs) |
| testNetChangesWithComputeUpdates | test_net_changes_have_update_images (differs) |
| testUpdateWithInComparableType | test_maps_are_compared_without_an_identity (differs) |
"""

from collections import Counter

import pytest

from spark.iceberg_changelog import agreed, changes_of, committed_ms, insert, overwrite_partitions, view_of
from support.spark.spark_table import CreateTable, SparkTable

pytestmark = pytest.mark.spark


@pytest.fixture
def overwritten(create_table: CreateTable) -> SparkTable:
    """Two commits of a row, and one that overwrites the second row's partition."""
    table = create_table("id int, data string", partitioned_by="data")
    insert(table, (1, "a"))
    insert(table, (2, "b"))
    overwrite_partitions(table, (-2, "b"))
    return table


@pytest.fixture
def by_id(create_table: CreateTable) -> SparkTable:
    """Three columns, partitioned by the id."""
    return create_table("id int, data string, age int", partitioned_by="id")


def test_column_names_with_spaces_and_dots(create_table: CreateTable) -> None:
    table = create_table("`the id` int, `the.data` string", partitioned_by="`the.data`")
    for values in ("(1, 'a')", "(2, 'b')"):
        table.sql(f"INSERT INTO {{table}} VALUES {values}")
    table.sql("INSERT OVERWRITE {table} PARTITION (`the.data` = 'b') SELECT -2")
    _, snap1, snap2 = table.snapshot_ids()
    assert agreed(table, snap1, snap2) == Counter([("DELETE", 0, snap2, 2, "b"), ("INSERT", 0, snap2, -2, "b")])
    updated = [("UPDATE_BEFORE", 0, snap2, 2, "b"), ("UPDATE_AFTER", 0, snap2, -2, "b")]
    assert changes_of(table, snap1, identifier_columns=["the.data"]) == Counter(updated)


def test_either_bound_may_be_left_out(overwritten: SparkTable) -> None:
    snap0, snap1, snap2 = overwritten.snapshot_ids()
    assert agreed(overwritten) == Counter(
        [
            ("INSERT", 0, snap0, 1, "a"), ("INSERT", 1, snap1, 2, "b"),
            ("INSERT", 2, snap2, -2, "b"), ("DELETE", 2, snap2, 2, "b"),
        ]
    )  # fmt: skip
    assert agreed(overwritten, snap0) == Counter(
        [("INSERT", 0, snap1, 2, "b"), ("INSERT", 1, snap2, -2, "b"), ("DELETE", 1, snap2, 2, "b")]
    )
    assert agreed(overwritten, None, snap1) == Counter([("INSERT", 0, snap0, 1, "a"), ("INSERT", 1, snap1, 2, "b")])


def test_times_bound_either_end(overwritten: SparkTable) -> None:
    snap0, snap1, _ = overwritten.snapshot_ids()
    time0, time1, time2 = committed_ms(overwritten)
    everything = agreed(overwritten)
    since_the_first = agreed(overwritten, snap0)
    assert agreed(overwritten, after_ms=time0 - 1) == everything
    assert agreed(overwritten, after_ms=time0 - 1, up_to_ms=time2 + 1) == everything
    assert agreed(overwritten, after_ms=time0 + 1) == since_the_first
    assert agreed(overwritten, after_ms=time0 + 1, up_to_ms=time2 + 1) == since_the_first
    assert agreed(overwritten, up_to_ms=time1 + 1) == Counter(
        [("INSERT", 0, snap0, 1, "a"), ("INSERT", 1, snap1, 2, "b")]
    )


def test_a_time_bounds_one_end_and_a_snapshot_the_other(overwritten: SparkTable) -> None:
    snap0, snap1, snap2 = overwritten.snapshot_ids()
    time0, time1, _ = committed_ms(overwritten)
    assert agreed(overwritten, after_ms=time0 + 1, up_to=snap2) == Counter(
        [("INSERT", 0, snap1, 2, "b"), ("INSERT", 1, snap2, -2, "b"), ("DELETE", 1, snap2, 2, "b")]
    )
    assert agreed(overwritten, snap0, up_to_ms=time1 + 1) == Counter([("INSERT", 0, snap1, 2, "b")])


def test_an_overwritten_row_is_an_update_by_the_columns_named(create_table: CreateTable) -> None:
    table = create_table("id int, data string", partitioned_by="data")
    table.sql("ALTER TABLE {table} DROP PARTITION FIELD data")
    table.sql("ALTER TABLE {table} ADD PARTITION FIELD id")
    insert(table, (1, "a"), (2, "b"))
    overwrite_partitions(table, (3, "c"), (2, "d"))
    snap1, snap2 = table.snapshot_ids()
    assert agreed(table, identifier_columns=["id"]) == Counter(
        [
            ("INSERT", 0, snap1, 1, "a"), ("INSERT", 0, snap1, 2, "b"), ("INSERT", 1, snap2, 3, "c"),
            ("UPDATE_BEFORE", 1, snap2, 2, "b"), ("UPDATE_AFTER", 1, snap2, 2, "d"),
        ]
    )  # fmt: skip


def test_updates_with_a_filter(create_table: CreateTable) -> None:
    table = create_table("id int, data string", partitioned_by="id")
    snap1 = insert(table, (1, "a"), (2, "b"))
    snap2 = overwrite_partitions(table, (3, "c"), (2, "d"))
    found = changes_of(table, identifier_columns=["id"], filter="id != 3")
    assert found == Counter(
        [
            ("INSERT", 0, snap1, 1, "a"), ("INSERT", 0, snap1, 2, "b"),
            ("UPDATE_BEFORE", 1, snap2, 2, "b"), ("UPDATE_AFTER", 1, snap2, 2, "d"),
        ]
    )  # fmt: skip
    theirs = view_of(table, identifier_columns=["id"])
    assert found == Counter({change: count for change, count in theirs.items() if change[3] != 3})


def test_an_overwritten_row_is_an_update_by_the_identifier_fields_of_the_table(create_table: CreateTable) -> None:
    table = create_table("id int NOT NULL, data string", identifier_fields=["id"])
    insert(table, (2, "b"))
    overwrite_partitions(table, (3, "c"), (2, "d"))
    snap1, snap2 = table.snapshot_ids()
    found = changes_of(table)
    assert found == agreed(table, identifier_columns=["id"])
    assert found == Counter(
        [
            ("INSERT", 0, snap1, 2, "b"), ("INSERT", 1, snap2, 3, "c"),
            ("UPDATE_BEFORE", 1, snap2, 2, "b"), ("UPDATE_AFTER", 1, snap2, 2, "d"),
        ]
    )  # fmt: skip


def test_an_identity_of_two_columns(by_id: SparkTable) -> None:
    insert(by_id, (1, "a", 12), (2, "b", 11))
    overwrite_partitions(by_id, (3, "c", 13), (2, "d", 11), (2, "e", 12))
    snap1, snap2 = by_id.snapshot_ids()
    assert agreed(by_id, identifier_columns=["id", "age"]) == Counter(
        [
            ("INSERT", 0, snap1, 1, "a", 12), ("INSERT", 0, snap1, 2, "b", 11),
            ("UPDATE_BEFORE", 1, snap2, 2, "b", 11), ("UPDATE_AFTER", 1, snap2, 2, "d", 11),
            ("INSERT", 1, snap2, 2, "e", 12), ("INSERT", 1, snap2, 3, "c", 13),
        ]
    )  # fmt: skip


def test_carry_over_rows_are_removed_next_to_updates(by_id: SparkTable) -> None:
    insert(by_id, (1, "a", 12), (2, "b", 11), (2, "e", 12))
    overwrite_partitions(by_id, (3, "c", 13), (2, "d", 11), (2, "e", 12))
    snap1, snap2 = by_id.snapshot_ids()
    assert agreed(by_id, snap1, identifier_columns=["id", "age"]) == Counter(
        [
            ("UPDATE_BEFORE", 0, snap2, 2, "b", 11), ("UPDATE_AFTER", 0, snap2, 2, "d", 11),
            ("INSERT", 0, snap2, 3, "c", 13),
        ]
    )  # fmt: skip


def test_net_changes_of_whole_rows(by_id: SparkTable) -> None:
    insert(by_id, (1, "a", 12), (2, "b", 11), (2, "e", 12))
    overwrite_partitions(by_id, (3, "c", 13), (2, "d", 11), (2, "e", 12))
    overwrite_partitions(by_id, (3, "c", 15), (2, "e", 12))
    snap1, snap2, snap3 = by_id.snapshot_ids()
    once = [("INSERT", 0, snap1, 1, "a", 12), ("INSERT", 2, snap3, 3, "c", 15)]
    # Row e came in the first step and was only rewritten since: apache/iceberg issue 14851.
    assert changes_of(by_id, changes="net") == Counter([*once, ("INSERT", 0, snap1, 2, "e", 12)])
    assert view_of(by_id, net=True) == Counter([*once, ("INSERT", 2, snap3, 2, "e", 12)])
    assert agreed(by_id, snap1, net=True) == Counter(
        [("DELETE", 0, snap2, 2, "b", 11), ("INSERT", 1, snap3, 3, "c", 15)]
    )


def test_net_changes_have_update_images(create_table: CreateTable) -> None:
    table = create_table("id int, data string", partitioned_by="id")
    insert(table, (1, "a"), (2, "x"))
    for value in ("b", "c"):
        overwrite_partitions(table, (1, value))
    first, _, last = table.snapshot_ids()
    assert changes_of(table, first, identifier_columns=["id"], changes="net") == Counter(
        [("UPDATE_BEFORE", 1, last, 1, "a"), ("UPDATE_AFTER", 1, last, 1, "c")]
    )
    with pytest.raises(Exception, match="Not support net changes with update images"):
        view_of(table, first, identifier_columns=["id"], net=True)


def test_maps_are_compared_without_an_identity(create_table: CreateTable) -> None:
    table = create_table("id int NOT NULL, data map<string, string>, age int")
    table.sql("INSERT INTO {table} VALUES (1, map('x', 'a', 'y', 'b'), 10), (2, map('x', 'c'), 20)")
    table.sql("UPDATE {table} SET data = map('x', 'd') WHERE id = 2")
    snap1, snap2 = table.snapshot_ids()
    assert changes_of(table, snap1) == Counter(
        [("DELETE", 0, snap2, 2, frozenset({("x", "c")}), 20), ("INSERT", 0, snap2, 2, frozenset({("x", "d")}), 20)]
    )
    with pytest.raises(Exception, match=r"Identifier field is required as .* unorderable columns: \[data\]"):
        view_of(table, snap1)
