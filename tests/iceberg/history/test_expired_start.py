from pathlib import Path

import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.table import Table

from icefloe.errors import TransientError
from icefloe.iceberg.history.history import ExpiredHistoryError
from support.tables.planning_tables import edit_metadata, make_table, plan_range, rows, snapshot_ids


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


def test_files_that_the_first_step_removed_are_read_as_long_as_they_exist(table: Table) -> None:
    first, second, third = snapshot_ids(table)
    expire(table, first)
    assert [step.end_snapshot_id for step in plan_range(table, after_snapshot_id=first).steps] == [second, third]


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


def test_files_are_looked_for_only_where_the_start_expired(table: Table) -> None:
    first, second, _ = snapshot_ids(table)
    file_of(table, first).unlink()
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
