from pathlib import Path

from pyiceberg.expressions import EqualTo

from icefloe.iceberg.history.history import History
from icefloe.iceberg.history.lag import Lag, lag
from support.tables.planning_tables import make_table, rows, snapshot_ids


def test_the_lag_counts_snapshots_and_the_rows_of_the_files_they_touched(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1, 2, 3))
    table.append(rows(4))
    table.delete(EqualTo(term="id", value=1))
    first, second, third = table.metadata.snapshots
    assert lag(History.of(table), cursor_snapshot_id=first.snapshot_id) == Lag(
        snapshots=2, rows=1 + 3 + 2, since_timestamp_ms=second.timestamp_ms
    )
    assert lag(History.of(table), cursor_snapshot_id=third.snapshot_id) == Lag(snapshots=0, rows=0)
    assert lag(History.of(table), cursor_snapshot_id=None).snapshots == 3


def test_a_cursor_that_expired_is_found_as_a_parent(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1))
    table.append(rows(2))
    first, second = table.metadata.snapshots
    table.metadata = table.metadata.model_copy(update={"snapshots": [second]})
    assert lag(History.of(table), cursor_snapshot_id=first.snapshot_id).snapshots == 1


def test_a_cursor_outside_the_history_has_no_lag(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1))
    table.append(rows(2))
    first, second = snapshot_ids(table)
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    assert lag(History.of(table), cursor_snapshot_id=second) == Lag(snapshots=None, rows=None)


def test_an_empty_table_has_nothing_to_deliver(tmp_path: Path) -> None:
    assert lag(History.of(make_table(tmp_path)), cursor_snapshot_id=None) == Lag(snapshots=0, rows=0)
