from pathlib import Path

import pytest

from iceberg.steps.planned_ranges import appended, ends, expire
from icefloe.iceberg.history.history import (
    ExpiredHistoryError,
)
from icefloe.iceberg.step import StepKind
from support.tables.planning_tables import edit_metadata, make_table, plan_range, rows, snapshot_ids


def test_an_expired_start_that_is_still_a_parent_is_fine(tmp_path: Path) -> None:
    table = appended(tmp_path, 3)
    first, second, third = snapshot_ids(table)
    kept = [snapshot for snapshot in table.metadata.snapshots if snapshot.snapshot_id != first]
    edit_metadata(table, snapshots=kept)
    planned = plan_range(table, after_snapshot_id=first)
    assert [step.end_snapshot_id for step in planned.steps] == [second, third]
    assert planned.steps[0].start_snapshot_id is None
    with pytest.raises(ExpiredHistoryError, match=f"the oldest is {second}"):
        plan_range(table)


def test_expired_history_is_an_error_that_names_the_oldest_snapshot_still_there(tmp_path: Path) -> None:
    table = appended(tmp_path, 4)
    first, second, third, _ = snapshot_ids(table)
    expire(table, first, second)
    assert table.snapshot_by_id(third).parent_snapshot_id is None
    with pytest.raises(ExpiredHistoryError) as error:
        plan_range(table)
    assert f"since the start of its history: the catalog gave 2 snapshots, the oldest is {third} of" in str(error.value)
    with pytest.raises(ExpiredHistoryError):
        plan_range(table, after_snapshot_id=second)


def test_a_gap_between_start_and_end_is_expired_history_and_no_rollback(tmp_path: Path) -> None:
    table = appended(tmp_path, 4)
    first, second, third, _ = snapshot_ids(table)
    expire(table, second)
    with pytest.raises(ExpiredHistoryError, match=f"the oldest is {third}"):
        plan_range(table, after_snapshot_id=first, on_rollback="compensate")


def test_from_earliest_starts_with_the_state_of_the_oldest_snapshot_still_there(tmp_path: Path) -> None:
    table = appended(tmp_path, 4)
    first, second, third, fourth = snapshot_ids(table)
    whole = plan_range(table, load="from_earliest")
    assert [step.kind for step in whole.steps] == [StepKind.COMMIT] * 4
    expire(table, first, second)
    steps = plan_range(table, load="from_earliest").steps
    assert [(step.kind, step.end_snapshot_id) for step in steps] == [
        (StepKind.INITIAL, third),
        (StepKind.COMMIT, fourth),
    ]


def test_an_oldest_snapshot_that_replaced_everything_counts_as_the_start(tmp_path: Path) -> None:
    table = appended(tmp_path, 2)
    with table.transaction() as transaction:
        transaction.overwrite(rows(5, 6))
    ids = snapshot_ids(table)
    expire(table, *ids[:-1])
    table.append(rows(7))
    planned = plan_range(table)
    assert planned.steps[0].end_snapshot_id == ids[-1]
    assert len(planned.steps) == 2


def test_a_full_load_is_one_state(tmp_path: Path) -> None:
    table = appended(tmp_path, 3)
    _, second, third = snapshot_ids(table)
    assert [(s.kind, s.end_snapshot_id) for s in plan_range(table, load="full").steps] == [(StepKind.INITIAL, third)]
    assert ends(table, load="full", up_to_snapshot_id=second) == [second]
    assert plan_range(make_table(tmp_path, name="empty"), load="full").steps == ()
    with pytest.raises(ValueError, match="starts without a snapshot"):
        plan_range(table, load="full", after_snapshot_id=second)
