from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from pyiceberg.table import Table
from pyiceberg.table.snapshots import SnapshotLogEntry

from icefloe.iceberg.history.first_snapshot import snapshot_at as under_test
from icefloe.iceberg.history.history import ExpiredHistoryError, UnknownBranchError
from icefloe.iceberg.history.loaded_table import LoadedTable
from support.tables.planning_tables import edit_metadata, make_table, rows, snapshot_ids

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def snapshot_at(table: Table, timestamp: datetime, **options: str) -> int | None:
    return under_test.snapshot_at(LoadedTable(table), timestamp, **options)


def logged(folder: Path, *order: int, count: int = 3) -> tuple[Table, list[int]]:
    """A table whose log says that the snapshots became current at noon, an hour later, and so on."""
    table = make_table(folder)
    for number in range(count):
        table.append(rows(number))
    ids = snapshot_ids(table)
    log = [
        SnapshotLogEntry(snapshot_id=ids[which], timestamp_ms=int((NOON + timedelta(hours=at)).timestamp() * 1000))
        for at, which in enumerate(order)
    ]
    edit_metadata(table, snapshot_log=log)
    return table, ids


def test_the_snapshot_current_at_a_time_follows_the_log_also_over_a_rollback(tmp_path: Path) -> None:
    table, ids = logged(tmp_path, 0, 1, 2, 0)
    hours = [snapshot_at(table, NOON + timedelta(hours=at, minutes=30)) for at in range(5)]
    assert hours == [ids[0], ids[1], ids[2], ids[0], ids[0]]


def test_a_snapshot_counts_from_the_very_millisecond_on(tmp_path: Path) -> None:
    table, ids = logged(tmp_path, 0, 1, 2)
    assert snapshot_at(table, NOON) == ids[0]
    assert snapshot_at(table, NOON - timedelta(milliseconds=1)) is None
    elsewhere = NOON.astimezone(timezone(timedelta(hours=5)))
    assert snapshot_at(table, elsewhere) == ids[0]


def test_on_a_tag_the_times_of_its_snapshot_s_lineage_count(tmp_path: Path) -> None:
    table, ids = logged(tmp_path, 0, 1, 2)
    table.manage_snapshots().create_tag(ids[1], "v1").commit()
    committed = [snapshot.timestamp_ms for snapshot in table.metadata.snapshots]
    times = [datetime.fromtimestamp(each / 1000, UTC) for each in committed]
    assert [snapshot_at(table, each, branch="v1") for each in times] == [ids[0], ids[1], ids[1]]


def test_a_time_without_an_offset_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs an offset"):
        snapshot_at(make_table(tmp_path), NOON.replace(tzinfo=None))


def test_before_the_oldest_snapshot_still_there_nothing_is_known(tmp_path: Path) -> None:
    table, ids = logged(tmp_path, 0, 1, 2)
    table.maintenance.expire_snapshots().by_id(ids[0]).commit()
    with pytest.raises(ExpiredHistoryError, match=f"the next one still there is {ids[1]}"):
        snapshot_at(table, NOON - timedelta(days=900))


def test_between_two_snapshots_one_that_expired_may_have_been_current(tmp_path: Path) -> None:
    table, ids = logged(tmp_path, 0, 2)
    edited = [
        snapshot.model_copy(update={"parent_snapshot_id": None}) if snapshot.snapshot_id == ids[2] else snapshot
        for snapshot in table.metadata.snapshots
        if snapshot.snapshot_id != ids[1]
    ]
    edit_metadata(table, snapshots=edited)
    with pytest.raises(ExpiredHistoryError):
        snapshot_at(table, NOON + timedelta(minutes=30))
    assert snapshot_at(table, NOON + timedelta(hours=2)) == ids[2]


def test_before_a_rollback_to_the_oldest_snapshot_still_there_the_newer_one_was_current(tmp_path: Path) -> None:
    table, ids = logged(tmp_path, 1, 2, 1)
    log = table.metadata.snapshot_log
    table.maintenance.expire_snapshots().by_id(ids[0]).commit()
    edit_metadata(table, snapshot_log=log)
    hours = [snapshot_at(table, NOON + timedelta(hours=at, minutes=30)) for at in range(3)]
    assert hours == [ids[1], ids[2], ids[1]]


def test_other_branches_go_by_the_times_of_their_snapshots(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1))
    table.manage_snapshots().create_branch(snapshot_ids(table)[0], "audit").commit()
    table.append(rows(2), branch="audit")
    table.append(rows(3))
    on_audit = table.metadata.snapshots[1]
    at = datetime.fromtimestamp(on_audit.timestamp_ms / 1000, UTC)
    assert snapshot_at(table, at + timedelta(days=1), branch="audit") == on_audit.snapshot_id
    with pytest.raises(UnknownBranchError):
        snapshot_at(table, at, branch="dev")


def test_an_empty_table_had_no_snapshot_at_any_time(tmp_path: Path) -> None:
    assert snapshot_at(make_table(tmp_path), NOON) is None
