"""Histories that lose something: compaction and expiry."""

from pathlib import Path

import pytest

from icefloe.batch.verify.verify_batches import verify_batches
from icefloe.flow import Route
from icefloe.iceberg.history.history import ExpiredHistoryError
from spark.moving_table import (
    changing,
    check_batch,
    compact,
    create_moving_table,
    followed,
    head,
    insert,
    states_of,
)
from spark.range_check import changes_of, check_range, check_ranges
from support.spark.java_rows import JavaStates
from support.spark.java_writers import JavaWriters
from support.spark.spark_table import CreateTable, SparkTable
from support.tables.planning_tables import plan_range

pytestmark = pytest.mark.spark


@pytest.fixture
def table(create_table: CreateTable) -> SparkTable:
    return create_moving_table(create_table)


def test_compaction_of_data_deletes_and_manifests_is_no_change(table: SparkTable, tmp_path: Path) -> None:
    workshop = followed(table, tmp_path)
    workshop.deliver()
    compact(table, "rewrite_manifests")
    table.sql("DELETE FROM {table} WHERE id IN (8, 27)")
    compact(table, "rewrite_position_delete_files")
    table.sql("UPDATE {table} SET v = 4 WHERE id IN (9, 28)")
    compact(table, "rewrite_data_files")
    compact(table, "rewrite_manifests")
    assert changes_of(table, changing(table)[-1]).num_rows == 0
    check_ranges(table, state=lambda snapshot_id, _: JavaStates(table).rows_at(snapshot_id))
    check_batch(workshop, table, changing(table)[5:])
    compact(table, "rewrite_data_files")
    batch = workshop.open()
    assert (batch.plan.route, batch.plan.spec.skipped_replace_snapshots) == (Route.NOTHING_TO_DO, 1)
    assert batch.deliver().warnings == ()
    assert workshop.prepare().plan is None


@pytest.mark.parametrize("format_version", [2, 3])
def test_a_compaction_of_files_with_deletes_is_checked_if_vectors_give_the_counts(
    create_table: CreateTable, format_version: int
) -> None:
    table = create_moving_table(create_table, format_version=format_version)
    before = table.snapshot_ids()[-1]
    compact(table, "rewrite_data_files")
    warnings = plan_range(table.load(), after_snapshot_id=before).warnings
    if format_version == 2:
        assert "could not be checked that it kept every row" in warnings[0]
    else:
        assert warnings == ()


def test_a_cursor_that_expired_alone_is_no_gap_where_the_next_commit_removed_nothing(
    table: SparkTable, tmp_path: Path
) -> None:
    workshop = followed(table, tmp_path)
    workshop.deliver()
    last = head(table)
    state = states_of(table, last)
    insert(table, 80, 83)
    table.sql("UPDATE {table} SET v = 5 WHERE id IN (2, 81)")
    inserted, updated = table.snapshot_ids()[-2:]
    JavaWriters(table).expire(*table.snapshot_ids()[:-2])
    assert last not in {snapshot.snapshot_id for snapshot in table.load().metadata.snapshots}
    states = state | states_of(table, inserted, updated)
    check_range(changes_of(table, last, identifier_columns=["id"]), states, [last, inserted, updated], ["id"])
    batch = workshop.open()
    report = batch.deliver()
    found = workshop.changes(report.batch.batch_number).drop_columns(["_batch"])
    check_range(found, states, [last, inserted, updated], ["id"])


def test_a_cursor_that_expired_with_the_files_that_the_next_commit_removed_is_a_gap(
    table: SparkTable, tmp_path: Path
) -> None:
    workshop = followed(table, tmp_path)
    workshop.deliver()
    last = head(table)
    # Rows of every file: as long as one vector of a Puffin file is in force, that file stays.
    table.sql("UPDATE {table} SET v = 6 WHERE id IN (1, 3, 24, 25)")
    insert(table, 90, 92)
    updated, _ = table.snapshot_ids()[-2:]
    JavaWriters(table).expire(*table.snapshot_ids()[:-2])
    sentence = f"since snapshot {last}.* the oldest is {updated} .* was deleted with it"
    with pytest.raises(ExpiredHistoryError, match=sentence):
        changes_of(table, last)
    with pytest.raises(ExpiredHistoryError, match=rf"{sentence}; set on_gap: reload"):
        workshop.prepare()
    assert workshop.session().checkpoint.look().opened is None
    report = workshop.set(on_gap="reload").deliver()
    assert report is not None
    assert (report.batch.after_snapshot_id, report.batch.counts["insert"]) == (
        None,
        states_of(table, head(table))[head(table)].total(),
    )
    assert verify_batches(workshop.session()).is_equal


def test_files_that_expiry_left_behind_are_read(table: SparkTable) -> None:
    last = head(table)
    state = states_of(table, last)
    table.sql("UPDATE {table} SET v = 6 WHERE id IN (2, 26)")
    JavaWriters(table).expire(*table.snapshot_ids()[:-1], clean_files=False)
    found = changes_of(table, last, identifier_columns=["id"])
    check_range(found, state | states_of(table, head(table)), [last, head(table)], ["id"])


def test_a_parent_that_pyiceberg_erased_is_a_gap(table: SparkTable, tmp_path: Path) -> None:
    workshop = followed(table, tmp_path)
    workshop.deliver()
    last = head(table)
    insert(table, 80, 83)
    table.load().maintenance.expire_snapshots().by_ids(table.snapshot_ids()[:-1]).commit()
    assert table.load().metadata.snapshots[0].parent_snapshot_id is None
    for after in (None, last):
        with pytest.raises(ExpiredHistoryError, match=f"the oldest is {head(table)}"):
            changes_of(table, after)
    with pytest.raises(ExpiredHistoryError, match="set on_gap: reload"):
        workshop.prepare()
    assert workshop.set(on_gap="reload", initial_load="from_earliest").deliver() is not None
    assert verify_batches(workshop.session()).is_equal
