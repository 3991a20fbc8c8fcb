from pathlib import Path

import pytest
from pyiceberg.table import Table

from icefloe.iceberg.history.history import ExpiredHistoryError, NotAnAncestorError
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.history.passage import Passage
from icefloe.iceberg.step import StepKind
from support.tables.planning_tables import appended, edit_metadata, plan_range, rows, snapshot_ids


def states(table: Table, after: int, **options: str) -> tuple[int | None, int | None]:
    """The states before and after the only step of a range over a rollback."""
    [step] = plan_range(table, after_snapshot_id=after, on_rollback="compensate", **options).steps
    assert step.kind is StepKind.STATES
    return step.start_snapshot_id, step.end_snapshot_id


def keep(table: Table, *ids: int, **edits: object) -> None:
    """Expire all other snapshots."""
    edit_metadata(table, snapshots=[each for each in table.metadata.snapshots if each.snapshot_id in ids], **edits)


@pytest.mark.parametrize("commits_since", [0, 2])
def test_a_rollback_is_one_step_between_two_states_followed_by_the_commits_since(
    tmp_path: Path, commits_since: int
) -> None:
    table = appended(tmp_path, 3)
    first, second, third = snapshot_ids(table)
    with pytest.raises(NotAnAncestorError, match=f"{third} is not an ancestor of snapshot {first}"):
        plan_range(table, after_snapshot_id=third, up_to_snapshot_id=first, on_rollback="compensate")
    table.manage_snapshots().rollback_to_snapshot(second).commit()
    for number in range(commits_since):
        table.append(rows(20 + number))
    steps = plan_range(table, after_snapshot_id=third, on_rollback="compensate").steps
    assert steps[0].kind is StepKind.STATES
    assert (steps[0].start_snapshot_id, steps[0].end_snapshot_id, steps[0].commit_snapshot_id) == (
        third, second, second,
    )  # fmt: skip
    moved = [entry for entry in table.metadata.snapshot_log if entry.snapshot_id == second][-1]
    assert steps[0].commit_timestamp_us == moved.timestamp_ms * 1000
    assert [step.end_snapshot_id for step in steps[1:]] == snapshot_ids(table)[3:]
    with pytest.raises(NotAnAncestorError, match=f"the branch was moved to snapshot {second}"):
        plan_range(table, after_snapshot_id=third, on_rollback="fail")


def test_a_rollback_is_compensated_if_the_snapshots_between_both_states_have_expired(tmp_path: Path) -> None:
    table = appended(tmp_path, 4)
    _, second, _, fourth = snapshot_ids(table)
    table.manage_snapshots().rollback_to_snapshot(second).commit()
    # As Iceberg does, the log forgets what was before a snapshot that expired.
    keep(table, second, fourth, snapshot_log=table.metadata.snapshot_log[-2:])
    assert states(table, fourth) == (fourth, second)


def test_commits_that_expired_are_a_gap_even_if_the_log_leads_over_them(tmp_path: Path) -> None:
    table = appended(tmp_path, 4)
    _, second, _, fourth = snapshot_ids(table)
    log = [each for each in table.metadata.snapshot_log if each.snapshot_id in (second, fourth)]
    keep(table, second, fourth, snapshot_log=log)
    with pytest.raises(ExpiredHistoryError, match=f"no longer has the changes since snapshot {second}"):
        plan_range(table, after_snapshot_id=second, on_rollback="compensate")


def test_a_cursor_is_taken_back_although_nothing_says_any_more_how_main_left_it(tmp_path: Path) -> None:
    # Snapshot 3 is kept by a pin; 4 was committed, the table rolled back to 2, and 4 expired with all that says so.
    table = appended(tmp_path, 4)
    first, second, third, fourth = snapshot_ids(table)
    table.manage_snapshots().rollback_to_snapshot(second).commit()
    table.append(rows(20))
    since = snapshot_ids(table)[-1]
    assert fourth != since
    keep(table, first, second, third, since, snapshot_log=table.metadata.snapshot_log[-2:], metadata_log=[])
    passage = Passage.find(LoadedTable(table), after_snapshot_id=third, after_was_head=True, on_rollback="compensate")
    assert passage.landing is not None
    assert (passage.landing.left_snapshot_id, passage.landing.snapshot.snapshot_id) == (third, second)
    assert [each.snapshot_id for each in passage.commits] == [since]
    with pytest.raises(NotAnAncestorError, match=f"the branch was moved to snapshot {second}"):
        Passage.find(LoadedTable(table), after_snapshot_id=third, after_was_head=True, on_rollback="fail")
    with pytest.raises(NotAnAncestorError, match="choose both ends on it, or start a pipeline over by icefloe reset"):
        plan_range(table, after_snapshot_id=third, on_rollback="compensate")


def test_another_snapshot_set_current_is_compensated_also_without_its_log(tmp_path: Path) -> None:
    table = appended(tmp_path, 2)
    _, second = snapshot_ids(table)
    table.append(rows(9), branch="new")
    replacement = snapshot_ids(table)[2]
    table.manage_snapshots().set_current_snapshot(replacement).commit()
    assert states(table, second) == (second, replacement)
    edit_metadata(table, snapshot_log=[table.metadata.snapshot_log[-1]])
    assert states(table, second) == (second, replacement)


def test_a_moved_branch_is_compensated_from_the_metadata_files(tmp_path: Path) -> None:
    table = appended(tmp_path, 3)
    _, second, third = snapshot_ids(table)
    table.manage_snapshots().create_branch(third, "audit").commit()
    table.manage_snapshots().remove_branch("audit").create_branch(second, "audit").commit()
    assert states(table, third, branch="audit") == (third, second)


def test_a_snapshot_that_a_branch_never_had_is_no_start_on_it(tmp_path: Path) -> None:
    table = appended(tmp_path, 1)
    table.manage_snapshots().create_branch(snapshot_ids(table)[0], "audit").commit()
    table.append(rows(5), branch="audit")
    table.append(rows(6))
    on_main = snapshot_ids(table)[2]
    with pytest.raises(NotAnAncestorError, match=f"{on_main} is not an ancestor of .* on branch 'audit'"):
        plan_range(table, branch="audit", after_snapshot_id=on_main, on_rollback="compensate")
    edit_metadata(table, metadata_log=[])
    assert plan_range(table, branch="audit", after_snapshot_id=on_main, on_rollback="compensate").steps
