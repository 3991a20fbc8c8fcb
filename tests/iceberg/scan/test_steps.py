from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from icefloe.errors import TerminalError
from icefloe.iceberg.catalog.catalogs import UnknownTableError
from icefloe.iceberg.history.history import ExpiredHistoryError, NotAnAncestorError
from icefloe.iceberg.history.loaded_table import MetadataLog
from icefloe.iceberg.scan.steps import SnapshotRange
from icefloe.iceberg.step import StepKind
from support.tables.planning_tables import (
    appended,
    as_replace,
    edit_metadata,
    make_table,
    plan_range,
    rows,
    snapshot_ids,
)


def ends(table: Table, **options: Any) -> list[int]:
    return [step.end_snapshot_id for step in plan_range(table, **options).steps]


def expire(table: Table, *ids: int) -> None:
    table.maintenance.expire_snapshots().by_ids(list(ids)).commit()


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
    whole = plan_range(table)
    assert [step.end_snapshot_id for step in whole.steps] == ids
    assert (whole.steps[0].start_snapshot_id, whole.steps[0].kind) == (None, StepKind.COMMIT)
    nothing = plan_range(table, after_snapshot_id=ids[4])
    assert (nothing.steps, nothing.up_to_snapshot_id) == ((), ids[4])
    empty = plan_range(make_table(tmp_path, name="empty"))
    assert (empty.steps, empty.up_to_snapshot_id) == ((), None)


def test_the_snapshots_of_one_commit_are_one_step_unless_a_bound_is_inside(tmp_path: Path) -> None:
    table = appended(tmp_path, 1)
    with table.transaction() as transaction:
        for number in range(3):
            transaction.append(rows(10 + number))
    before, first, second, third = ids = snapshot_ids(table)
    fused, split = plan_range(table).steps, plan_range(table, commit_groups="split").steps
    assert [step.snapshot_ids for step in fused] == [(before,), (first, second, third)]
    assert (fused[1].commit_snapshot_id, fused[1].start_snapshot_id) == (third, before)
    assert [step.snapshot_ids for step in split] == [(snapshot_id,) for snapshot_id in ids]
    assert [s.snapshot_ids for s in plan_range(table, after_snapshot_id=first).steps] == [(second, third)]
    assert [s.snapshot_ids for s in plan_range(table, up_to_snapshot_id=second).steps][1:] == [(first, second)]


def test_branches_and_tags_have_their_own_histories_and_unknown_ones_are_named(tmp_path: Path) -> None:
    table = appended(tmp_path, 2)
    first, second = snapshot_ids(table)
    table.manage_snapshots().create_branch(second, "audit").create_tag(second, "v1").commit()
    table.append(rows(7), branch="audit")
    table.append(rows(8))
    _, _, on_audit, on_main = snapshot_ids(table)
    assert ends(table, branch="audit", after_snapshot_id=first) == [second, on_audit]
    assert ends(table, after_snapshot_id=first) == [second, on_main]
    assert ends(table, branch="v1") == [first, second]
    for branch, foreign in (("main", on_audit), ("v1", on_main)):
        with pytest.raises(NotAnAncestorError, match=f"is not in the history of branch '{branch}'"):
            plan_range(table, branch=branch, up_to_snapshot_id=foreign)
    with pytest.raises(NotAnAncestorError, match=f"{on_audit} is not an ancestor of snapshot {on_main} on"):
        plan_range(table, after_snapshot_id=on_audit)
    with pytest.raises(UnknownTableError, match=r"'dev'; its branches are audit, main, its tags v1"):
        plan_range(table, branch="dev")
    with pytest.raises(NotAnAncestorError, match="has no snapshot 42"):
        plan_range(table, up_to_snapshot_id=42)
    with pytest.raises(ExpiredHistoryError, match="since snapshot 42: the catalog gave"):
        plan_range(table, after_snapshot_id=42)


def test_a_range_may_end_at_what_the_branch_left_behind(tmp_path: Path) -> None:
    table = appended(tmp_path, 3)
    first, second, third = snapshot_ids(table)
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    table.append(rows(8))
    assert ends(table, after_snapshot_id=first, up_to_snapshot_id=third) == [second, third]
    assert ends(table, up_to_snapshot_id=second) == [first, second]


def test_replace_snapshots_are_skipped_and_take_no_ordinal(tmp_path: Path) -> None:
    table = appended(tmp_path, 2)
    table.append(rows())
    table.append(rows(5))
    first, second, compaction, fourth = snapshot_ids(table)
    as_replace(table, compaction)
    planned = plan_range(table)
    assert [(step.change_ordinal, step.end_snapshot_id) for step in planned.steps] == [
        (0, first), (1, second), (2, fourth),
    ]  # fmt: skip
    assert (planned.steps[2].start_snapshot_id, planned.skipped_replace_snapshots) == (compaction, 1)
    only = plan_range(table, after_snapshot_id=second, up_to_snapshot_id=compaction)
    assert (only.steps, only.skipped_replace_snapshots) == ((), 1)


def test_a_replace_is_checked_also_without_the_snapshot_before_it(tmp_path: Path) -> None:
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


def test_commits_before_the_end_of_the_metadata_log_are_split_with_a_warning(tmp_path: Path) -> None:
    table = appended(tmp_path, 4, **{"write.metadata.previous-versions-max": "1"})
    first, second, third, fourth = snapshot_ids(table)
    planned = plan_range(table)
    assert len(planned.steps) == 4
    [warning] = planned.warnings
    assert f"between {first} and" in warning
    assert (ends(table, after_snapshot_id=third), plan_range(table, after_snapshot_id=third).warnings) == ([fourth], ())
    # Unknown boundaries of what is left out are none.
    assert plan_range(table, max_steps=1).warnings == ()
    [warning] = plan_range(table, max_steps=2).warnings
    assert f"between {first} and {second} (1 boundaries)" in warning


def test_an_expired_start_that_is_still_a_parent_is_fine(tmp_path: Path) -> None:
    table = appended(tmp_path, 3)
    first, second, third = snapshot_ids(table)
    edit_metadata(table, snapshots=[each for each in table.metadata.snapshots if each.snapshot_id != first])
    planned = plan_range(table, after_snapshot_id=first)
    assert [step.end_snapshot_id for step in planned.steps] == [second, third]
    assert planned.steps[0].start_snapshot_id is None
    with pytest.raises(ExpiredHistoryError, match=f"the oldest is {second}"):
        plan_range(table)


def test_expired_history_is_an_error_that_names_the_oldest_snapshot_still_there(tmp_path: Path) -> None:
    table = appended(tmp_path, 4)
    first, second, third, _ = snapshot_ids(table)
    expire(table, second)
    with pytest.raises(ExpiredHistoryError, match=f"the oldest is {third}"):
        plan_range(table, after_snapshot_id=first, on_rollback="compensate")
    expire(table, first)
    with pytest.raises(ExpiredHistoryError, match=f"start of its history: the catalog gave 2 .* oldest is {third} of"):
        plan_range(table)


def test_from_earliest_starts_with_the_state_of_the_oldest_snapshot_still_there(tmp_path: Path) -> None:
    table = appended(tmp_path, 4)
    first, second, third, fourth = snapshot_ids(table)
    whole = plan_range(table, load="from_earliest")
    assert [step.kind for step in whole.steps] == [StepKind.COMMIT] * 4
    expire(table, first, second)
    expected = [(StepKind.INITIAL, third), (StepKind.COMMIT, fourth)]
    steps = plan_range(table, load="from_earliest").steps
    assert [(step.kind, step.end_snapshot_id) for step in steps] == expected
    one_by_one = in_batches(table, max_steps=1, load="from_earliest")
    assert [(step.kind, step.end_snapshot_id) for each in one_by_one for step in each.steps] == expected


def test_an_oldest_snapshot_that_replaced_everything_counts_as_the_start(tmp_path: Path) -> None:
    table = appended(tmp_path, 2)
    with table.transaction() as transaction:
        transaction.overwrite(rows(5, 6))
    ids = snapshot_ids(table)
    expire(table, *ids[:-1])
    table.append(rows(7))
    assert ends(table) == [ids[-1], snapshot_ids(table)[-1]]


def test_a_full_load_is_one_state(tmp_path: Path) -> None:
    table = appended(tmp_path, 3)
    _, second, third = snapshot_ids(table)
    assert [(s.kind, s.end_snapshot_id) for s in plan_range(table, load="full").steps] == [(StepKind.INITIAL, third)]
    assert ends(table, load="full", up_to_snapshot_id=second) == [second]
    assert plan_range(make_table(tmp_path, name="empty"), load="full").steps == ()


def in_batches(table: Table, *, max_steps: int, **options: Any) -> list[SnapshotRange]:
    """Range after range until the head is reached."""
    ranges = [plan_range(table, max_steps=max_steps, **options)]
    while ranges[-1].up_to_snapshot_id != snapshot_ids(table)[-1]:
        after = ranges[-1].up_to_snapshot_id
        ranges.append(plan_range(table, max_steps=max_steps, after_snapshot_id=after))
    return ranges


@pytest.mark.parametrize("max_steps", [1, 2, 3, 7])
def test_ranges_of_few_steps_have_together_the_steps_of_one(tmp_path: Path, max_steps: int) -> None:
    table = appended(tmp_path, 7)
    ranges = in_batches(table, max_steps=max_steps)
    assert [len(found.steps) for found in ranges[:-1]] == [max_steps] * (len(ranges) - 1)
    found = [(step.change_ordinal, step.end_snapshot_id) for found in ranges for step in found.steps]
    assert found == [(number % max_steps, snapshot_id) for number, snapshot_id in enumerate(snapshot_ids(table))]


@pytest.mark.parametrize("max_steps", [1, 2, 9])
def test_a_commit_of_many_snapshots_is_never_torn_apart(tmp_path: Path, max_steps: int) -> None:
    table = appended(tmp_path, 1)
    with table.transaction() as transaction:
        for number in range(20):
            transaction.append(rows(100 + number))
    table.append(rows(1))
    found = [len(step.snapshot_ids) for each in in_batches(table, max_steps=max_steps) for step in each.steps]
    assert found == [1, 20, 1]


def test_replace_snapshots_after_the_last_step_that_fits_are_skipped_with_it(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    for group in ([1], [], [], [2], []):
        table.append(rows(*group))
    ids = snapshot_ids(table)
    for compaction in (ids[1], ids[2], ids[4]):
        as_replace(table, compaction)
    first, second = in_batches(table, max_steps=1)
    assert (first.up_to_snapshot_id, first.skipped_replace_snapshots) == (ids[2], 2)
    assert (second.up_to_snapshot_id, second.skipped_replace_snapshots) == (ids[4], 1)
    assert second.steps[0].start_snapshot_id == ids[2]


def test_a_rollback_takes_the_room_of_a_step(tmp_path: Path) -> None:
    table = appended(tmp_path, 3)
    first, _, third = snapshot_ids(table)
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    table.append(rows(9))
    found = plan_range(table, after_snapshot_id=third, on_rollback="compensate", max_steps=1)
    assert [(step.kind, step.end_snapshot_id) for step in found.steps] == [(StepKind.STATES, first)]
    assert found.up_to_snapshot_id == first


def test_far_behind_only_the_metadata_files_of_the_first_commits_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = appended(tmp_path, 40)
    read: list[str] = []
    read_file = MetadataLog._read

    def note_and_read(log: MetadataLog, path: str) -> Any:
        read.append(path)
        return read_file(log, path)

    monkeypatch.setattr(MetadataLog, "_read", note_and_read)
    assert len(plan_range(table, max_steps=2).steps) == 2
    assert 2 < len(read) < 20
