from pathlib import Path

import pytest
from pyiceberg.expressions import EqualTo

from iceberg.scan.planned_ranges import appended, as_replace, ends, expire
from icefloe.errors import TerminalError
from icefloe.iceberg.history.history import (
    ExpiredHistoryError,
    NotAnAncestorError,
    UnknownBranchError,
    UnknownSnapshotError,
)
from icefloe.iceberg.step import StepKind
from support.tables.planning_tables import edit_metadata, make_table, plan_range, rows, snapshot_ids


def test_a_range_is_the_commits_after_its_start_up_to_its_end(tmp_path: Path) -> None:
    table = appended(tmp_path, 5)
    ids = snapshot_ids(table)
    planned = plan_range(table, after_snapshot_id=ids[0], up_to_snapshot_id=ids[3])
    assert [step.end_snapshot_id for step in planned.steps] == ids[1:4]
    assert [step.change_ordinal for step in planned.steps] == [0, 1, 2]
    assert [step.start_snapshot_id for step in planned.steps] == ids[:3]
    assert planned.steps[0].commit_timestamp_us == table.snapshot_by_id(ids[1]).timestamp_ms * 1000
    assert (planned.after_snapshot_id, planned.up_to_snapshot_id) == (ids[0], ids[3])
    assert planned.warnings == ()


def test_without_a_start_a_range_begins_with_the_first_snapshot_and_without_an_end_it_goes_to_the_head(
    tmp_path: Path,
) -> None:
    table = appended(tmp_path, 3)
    planned = plan_range(table)
    assert [step.end_snapshot_id for step in planned.steps] == snapshot_ids(table)
    assert planned.steps[0].start_snapshot_id is None
    assert planned.steps[0].kind is StepKind.COMMIT


def test_an_empty_range_has_no_steps(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    assert plan_range(table).steps == ()
    assert plan_range(table).up_to_snapshot_id is None
    table.append(rows(1))
    head = snapshot_ids(table)[0]
    planned = plan_range(table, after_snapshot_id=head)
    assert planned.steps == ()
    assert planned.up_to_snapshot_id == head


def test_the_snapshots_of_one_commit_are_one_step_with_the_id_and_time_of_the_last(tmp_path: Path) -> None:
    table = appended(tmp_path, 1)
    table.append(rows(1, 2, 3, 4))
    table.upsert(rows(1, 2, 8, value="b"), ["id"])
    ids = snapshot_ids(table)
    assert len(ids) >= 5
    fused, split = plan_range(table), plan_range(table, commit_groups="split")
    assert [step.snapshot_ids for step in fused.steps] == [(ids[0],), (ids[1],), tuple(ids[2:])]
    assert fused.steps[2].commit_snapshot_id == ids[-1]
    assert fused.steps[2].start_snapshot_id == ids[1]
    assert [step.snapshot_ids for step in split.steps] == [(snapshot_id,) for snapshot_id in ids]


def test_a_bound_inside_a_commit_splits_it_there(tmp_path: Path) -> None:
    table = appended(tmp_path, 1)
    with table.transaction() as transaction:
        for number in range(3):
            transaction.append(rows(10 + number))
    _, first, second, third = snapshot_ids(table)
    assert [s.snapshot_ids for s in plan_range(table, after_snapshot_id=first).steps] == [(second, third)]
    assert [s.snapshot_ids for s in plan_range(table, up_to_snapshot_id=second).steps][1:] == [(first, second)]


def test_an_unknown_branch_is_named_with_those_there_are(tmp_path: Path) -> None:
    table = appended(tmp_path, 1)
    table.manage_snapshots().create_tag(snapshot_ids(table)[0], "v1").create_branch(
        snapshot_ids(table)[0], "audit"
    ).commit()
    with pytest.raises(UnknownBranchError, match=r"'dev'; its branches are audit, main, its tags v1"):
        plan_range(table, branch="dev")


def test_a_tag_has_the_history_of_its_snapshot(tmp_path: Path) -> None:
    table = appended(tmp_path, 3)
    first, second, third = snapshot_ids(table)
    table.manage_snapshots().create_tag(second, "v1").commit()
    assert ends(table, branch="v1") == [first, second]
    assert ends(table, branch="v1", after_snapshot_id=first) == [second]
    with pytest.raises(UnknownSnapshotError, match="is not in the history of branch 'v1'"):
        plan_range(table, branch="v1", up_to_snapshot_id=third)


def test_a_range_may_end_at_what_the_branch_left_behind(tmp_path: Path) -> None:
    table = appended(tmp_path, 3)
    first, second, third = snapshot_ids(table)
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    table.append(rows(8))
    assert ends(table, after_snapshot_id=first, up_to_snapshot_id=third) == [second, third]
    assert ends(table, up_to_snapshot_id=second) == [first, second]


def test_a_branch_has_its_own_history(tmp_path: Path) -> None:
    table = appended(tmp_path, 2)
    first, second = snapshot_ids(table)
    table.manage_snapshots().create_branch(second, "audit").commit()
    table.append(rows(7), branch="audit")
    table.append(rows(8))
    _, _, on_audit, on_main = snapshot_ids(table)
    assert ends(table, branch="audit", after_snapshot_id=first) == [second, on_audit]
    assert ends(table, after_snapshot_id=first) == [second, on_main]
    with pytest.raises(UnknownSnapshotError, match="is not in the history of branch 'main'"):
        plan_range(table, up_to_snapshot_id=on_audit)
    with pytest.raises(NotAnAncestorError, match=f"{on_audit} is not an ancestor of snapshot {on_main} on"):
        plan_range(table, after_snapshot_id=on_audit, on_rollback="compensate")


def test_unknown_snapshots_are_one_sentence(tmp_path: Path) -> None:
    table = appended(tmp_path, 1)
    with pytest.raises(UnknownSnapshotError, match="has no snapshot 42"):
        plan_range(table, up_to_snapshot_id=42)
    with pytest.raises(ExpiredHistoryError, match="since snapshot 42: the catalog gave"):
        plan_range(table, after_snapshot_id=42)


def test_replace_snapshots_are_skipped_and_take_no_ordinal(tmp_path: Path) -> None:
    table = appended(tmp_path, 2)
    table.append(rows())
    table.append(rows(5))
    first, second, compaction, fourth = snapshot_ids(table)
    as_replace(table, compaction)
    planned = plan_range(table)
    assert [step.end_snapshot_id for step in planned.steps] == [first, second, fourth]
    assert [step.change_ordinal for step in planned.steps] == [0, 1, 2]
    assert planned.steps[2].start_snapshot_id == compaction
    assert planned.skipped_replace_snapshots == 1
    only = plan_range(table, after_snapshot_id=second, up_to_snapshot_id=compaction)
    assert only.steps == ()
    assert only.skipped_replace_snapshots == 1


def test_a_replace_that_changed_the_number_of_rows_is_an_error(tmp_path: Path) -> None:
    table = appended(tmp_path, 2)
    as_replace(table, snapshot_ids(table)[1])
    with pytest.raises(
        TerminalError, match="must keep the 0 rows of the files that it replaced, but there are 1 after it"
    ):
        plan_range(table)


def test_a_replace_is_checked_without_the_snapshot_before_it(tmp_path: Path) -> None:
    table = appended(tmp_path, 2)
    table.append(rows())
    first, second, third = snapshot_ids(table)
    as_replace(table, third)
    edit_metadata(table, snapshots=[s for s in table.metadata.snapshots if s.snapshot_id == third])
    planned = plan_range(table, after_snapshot_id=second)
    assert (planned.steps, planned.skipped_replace_snapshots, planned.warnings) == ((), 1, ())
    table.refresh()
    as_replace(table, second)
    edit_metadata(table, snapshots=[s for s in table.metadata.snapshots if s.snapshot_id != first])
    with pytest.raises(
        TerminalError, match="must keep the 0 rows of the files that it replaced, but there are 1 after it"
    ):
        plan_range(table, after_snapshot_id=first)


def test_order_follows_lineage_and_not_time_or_sequence_number(tmp_path: Path) -> None:
    table = appended(tmp_path, 3)
    ids = snapshot_ids(table)
    edited = [
        snapshot.model_copy(update={"timestamp_ms": 10_000 - position, "sequence_number": 0})
        for position, snapshot in enumerate(table.metadata.snapshots)
    ]
    edit_metadata(table, snapshots=edited[::-1])
    assert ends(table) == ids


def test_parents_in_a_circle_are_an_error_and_do_not_hang(tmp_path: Path) -> None:
    table = appended(tmp_path, 2)
    first, second = table.metadata.snapshots
    circle = first.model_copy(update={"parent_snapshot_id": second.snapshot_id})
    edit_metadata(table, snapshots=[circle, second])
    with pytest.raises(TerminalError, match="is its own ancestor"):
        plan_range(table)


def test_commits_before_the_end_of_the_metadata_log_are_split_with_a_warning(tmp_path: Path) -> None:
    table = appended(tmp_path, 4, **{"write.metadata.previous-versions-max": "2"})
    first, _, third, fourth = snapshot_ids(table)
    planned = plan_range(table)
    assert len(planned.steps) == 4
    assert len(planned.warnings) == 1
    assert f"between {first} and" in planned.warnings[0]
    assert plan_range(table, after_snapshot_id=third).warnings == ()
    assert plan_range(table, after_snapshot_id=third).steps[0].end_snapshot_id == fourth


def test_deleting_a_table_s_rows_is_a_step(tmp_path: Path) -> None:
    table = appended(tmp_path, 2)
    table.delete(EqualTo(term="id", value=1))
    assert len(plan_range(table).steps) == 3


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
