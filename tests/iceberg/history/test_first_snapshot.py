from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from pyiceberg.expressions import AlwaysTrue, EqualTo
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, SnapshotLogEntry, Summary

from icefloe.errors import TransientError
from icefloe.iceberg.catalog.catalogs import UnknownTableError
from icefloe.iceberg.history.history import ExpiredHistoryError
from icefloe.iceberg.history.loaded_table import LoadedTable, SnapshotOrigin, origin_of
from support.tables.planning_tables import appended, edit_metadata, make_table, plan_range, rows, snapshot_ids


def origin(table: Table, position: int = -1) -> SnapshotOrigin:
    return origin_of(table.metadata.snapshots[position], LoadedTable(table).manifests)


@pytest.mark.parametrize("format_version", [1, 2])
def test_a_first_append_is_the_root_and_one_with_older_files_is_a_gap(tmp_path: Path, format_version: int) -> None:
    merging = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}
    table = appended(tmp_path, 3, format_version=format_version, **merging)
    assert [origin(table, at) for at in range(3)] == [SnapshotOrigin.ROOT, SnapshotOrigin.GAP, SnapshotOrigin.GAP]


def test_a_snapshot_that_left_or_rewrote_every_file_is_a_step_of_its_own_unless_it_is_a_compaction(
    tmp_path: Path,
) -> None:
    table = make_table(tmp_path)
    table.append(rows(1, 2))
    table.delete("id = 1")
    assert table.current_snapshot().summary.operation is Operation.OVERWRITE
    assert origin(table) is SnapshotOrigin.FRESH
    compaction = table.current_snapshot().model_copy(update={"summary": Summary(Operation.REPLACE)})
    assert origin_of(compaction, LoadedTable(table).manifests) is SnapshotOrigin.GAP
    table.delete(AlwaysTrue())
    assert origin(table) is SnapshotOrigin.FRESH


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def snapshot_at(table: Table, timestamp: datetime, **options: str) -> int | None:
    return LoadedTable(table).snapshot_at(timestamp, **options)


def logged(folder: Path, *order: int) -> tuple[Table, list[int]]:
    """A table whose log says that the snapshots became current at noon, an hour later, and so on."""
    table = appended(folder, 3)
    ids = snapshot_ids(table)
    log = [
        SnapshotLogEntry(snapshot_id=ids[which], timestamp_ms=int((NOON + timedelta(hours=at)).timestamp() * 1000))
        for at, which in enumerate(order)
    ]
    edit_metadata(table, snapshot_log=log)
    return table, ids


def test_the_snapshot_current_at_a_time_follows_the_log_from_the_very_millisecond_on_also_over_a_rollback(
    tmp_path: Path,
) -> None:
    assert snapshot_at(make_table(tmp_path, name="empty"), NOON) is None
    table, ids = logged(tmp_path, 0, 1, 2, 0)
    hours = [snapshot_at(table, NOON + timedelta(hours=at, minutes=30)) for at in range(5)]
    assert hours == [ids[0], ids[1], ids[2], ids[0], ids[0]]
    assert snapshot_at(table, NOON.astimezone(timezone(timedelta(hours=5)))) == ids[0]
    assert snapshot_at(table, NOON - timedelta(milliseconds=1)) is None
    with pytest.raises(ValueError, match="needs an offset"):
        snapshot_at(table, NOON.replace(tzinfo=None))


def test_if_clocks_went_back_the_last_entry_that_is_not_later_counts(tmp_path: Path) -> None:
    table, ids = logged(tmp_path, 0, 1, 2)
    back = table.metadata.snapshot_log[2].model_copy(
        update={"timestamp_ms": table.metadata.snapshot_log[1].timestamp_ms - 600_000}
    )
    edit_metadata(table, snapshot_log=[*table.metadata.snapshot_log[:2], back])
    found = [snapshot_at(table, NOON + timedelta(minutes=at)) for at in (49, 50, 55, 60, 90)]
    assert found == [ids[0], ids[2], ids[2], ids[2], ids[2]]
    assert found == [
        table.snapshot_as_of_timestamp(int((NOON + timedelta(minutes=at)).timestamp() * 1000)).snapshot_id
        for at in (49, 50, 55, 60, 90)
    ]


def test_on_a_tag_and_another_branch_the_times_of_the_lineage_count(tmp_path: Path) -> None:
    table, ids = logged(tmp_path, 0, 1, 2)
    table.manage_snapshots().create_tag(ids[1], "v1").create_branch(ids[0], "audit").commit()
    table.append(rows(9), branch="audit")
    committed = [snapshot.timestamp_ms for snapshot in table.metadata.snapshots]
    times = [datetime.fromtimestamp(each / 1000, UTC) for each in committed]
    assert [snapshot_at(table, each, branch="v1") for each in times[:3]] == [ids[0], ids[1], ids[1]]
    assert [snapshot_at(table, each, branch="audit") for each in times] == [ids[0]] * 3 + snapshot_ids(table)[-1:]
    with pytest.raises(UnknownTableError):
        snapshot_at(table, NOON, branch="dev")


def test_a_time_at_which_an_expired_snapshot_may_have_been_current_is_refused(tmp_path: Path) -> None:
    table, ids = logged(tmp_path, 0, 2)
    whole = table.metadata.snapshots
    orphan = whole[2].model_copy(update={"parent_snapshot_id": None})
    edit_metadata(table, snapshots=[whole[0], orphan])
    with pytest.raises(ExpiredHistoryError):
        snapshot_at(table, NOON + timedelta(minutes=30))
    assert snapshot_at(table, NOON + timedelta(hours=2)) == ids[2]
    edit_metadata(table, snapshots=whole)
    table.maintenance.expire_snapshots().by_id(ids[0]).commit()
    with pytest.raises(ExpiredHistoryError, match=f"the next one still there is {whole[1].snapshot_id}"):
        snapshot_at(table, NOON - timedelta(days=900))


def test_before_a_rollback_to_the_oldest_snapshot_still_there_the_newer_one_was_current(tmp_path: Path) -> None:
    table, ids = logged(tmp_path, 1, 2, 1)
    log = table.metadata.snapshot_log
    table.maintenance.expire_snapshots().by_id(ids[0]).commit()
    edit_metadata(table, snapshot_log=log)
    hours = [snapshot_at(table, NOON + timedelta(hours=at, minutes=30)) for at in range(3)]
    assert hours == [ids[1], ids[2], ids[1]]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Three commits, of which the second removed the file of the first."""
    made = make_table(tmp_path)
    made.append(rows(1, 2))
    made.delete(EqualTo(term="id", value=1))
    made.append(rows(3))
    return made


def expire(table: Table, snapshot_id: int) -> None:
    """As Java does: the parent's id stays where it was."""
    edit_metadata(table, snapshots=[s for s in table.metadata.snapshots if s.snapshot_id != snapshot_id])


def file_of(table: Table, snapshot_id: int) -> Path:
    [path] = table.inspect.files(snapshot_id)["file_path"].to_pylist()
    return Path(path.removeprefix("file://"))


def test_a_removed_file_that_was_deleted_with_its_snapshot_is_a_gap(table: Table) -> None:
    first, second, third = snapshot_ids(table)
    path = file_of(table, first)
    expire(table, first)
    path.unlink()
    sentence = (
        rf"since snapshot {first}: .*, the oldest is {second} of .*; file "
        rf"file://{path}, which snapshot {second} removed, was deleted with it$"
    )
    with pytest.raises(ExpiredHistoryError, match=sentence):
        plan_range(table, after_snapshot_id=first)
    assert [step.end_snapshot_id for step in plan_range(table, after_snapshot_id=second).steps] == [third]


def test_removed_files_are_looked_for_only_where_the_start_expired(table: Table) -> None:
    first, second, third = snapshot_ids(table)
    path, expired = file_of(table, first), table.metadata
    expire(table, first)
    assert [step.end_snapshot_id for step in plan_range(table, after_snapshot_id=first).steps] == [second, third]
    table.metadata = expired
    path.unlink()
    assert plan_range(table, after_snapshot_id=first).steps
    expire(table, first)
    expire(table, second)
    assert plan_range(table, after_snapshot_id=second).steps


def test_a_store_that_does_not_answer_is_no_gap(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> bool:
        raise OSError(5, "the store is down")

    first = snapshot_ids(table)[0]
    expire(table, first)
    monkeypatch.setattr("pyiceberg.io.pyarrow.PyArrowFile.exists", fail)
    with pytest.raises(TransientError, match="the store is down"):
        plan_range(table, after_snapshot_id=first)
