from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from iceberg.scan.planned_ranges import as_replace
from icefloe.iceberg.history.loaded_table import MetadataLog
from icefloe.iceberg.scan.steps import SnapshotRange
from icefloe.iceberg.step import StepKind
from support.tables.planning_tables import make_table, plan_range, rows, snapshot_ids


def in_batches(table: Table, *, max_steps: int, **options: Any) -> list[SnapshotRange]:
    """Range after range until the head is reached."""
    ranges = [plan_range(table, max_steps=max_steps, **options)]
    while ranges[-1].up_to_snapshot_id != snapshot_ids(table)[-1]:
        after = ranges[-1].up_to_snapshot_id
        ranges.append(plan_range(table, max_steps=max_steps, after_snapshot_id=after))
    return ranges


@pytest.mark.parametrize("max_steps", [1, 2, 3, 7])
def test_ranges_of_few_steps_have_together_the_steps_of_one(tmp_path: Path, max_steps: int) -> None:
    table = make_table(tmp_path)
    for number in range(7):
        table.append(rows(number))
    ranges = in_batches(table, max_steps=max_steps)
    assert [len(found.steps) for found in ranges[:-1]] == [max_steps] * (len(ranges) - 1)
    ends = [(step.change_ordinal, step.end_snapshot_id) for found in ranges for step in found.steps]
    assert ends == [(number % max_steps, snapshot_id) for number, snapshot_id in enumerate(snapshot_ids(table))]


@pytest.mark.parametrize("max_steps", [1, 2, 3])
def test_a_commit_is_never_torn_apart(tmp_path: Path, max_steps: int) -> None:
    table = make_table(tmp_path)
    table.append(rows(1, 2, 3, 4))
    table.upsert(rows(1, 2, 8, value="b"), ["id"])
    table.upsert(rows(2, 3, 9, value="c"), ["id"])
    ids = snapshot_ids(table)
    [whole] = in_batches(table, max_steps=9)
    assert [len(step.snapshot_ids) for step in whole.steps] == [1, 3, 3]
    found = [step.snapshot_ids for each in in_batches(table, max_steps=max_steps) for step in each.steps]
    assert found == [(ids[0],), tuple(ids[1:4]), tuple(ids[4:])]


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


def test_the_state_that_comes_first_is_a_step_too(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    for number in range(4):
        table.append(rows(number))
    ids = snapshot_ids(table)
    table.maintenance.expire_snapshots().by_ids(ids[:2]).commit()
    first, second = in_batches(table, max_steps=1, load="from_earliest")
    assert [(step.kind, step.end_snapshot_id) for step in first.steps] == [(StepKind.INITIAL, ids[2])]
    assert [(step.kind, step.end_snapshot_id) for step in second.steps] == [(StepKind.COMMIT, ids[3])]


def test_a_rollback_is_a_step_too(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    for number in range(3):
        table.append(rows(number))
    first, _, third = snapshot_ids(table)
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    table.append(rows(9))
    found = plan_range(table, after_snapshot_id=third, on_rollback="compensate", max_steps=1)
    assert [(step.kind, step.end_snapshot_id) for step in found.steps] == [(StepKind.STATES, first)]
    assert found.up_to_snapshot_id == first


def test_unknown_boundaries_of_what_is_left_out_are_no_warning(tmp_path: Path) -> None:
    table = make_table(tmp_path, **{"write.metadata.previous-versions-max": "1"})
    for number in range(5):
        table.append(rows(number))
    ids = snapshot_ids(table)
    assert plan_range(table, max_steps=1).warnings == ()
    [warning] = plan_range(table, max_steps=2).warnings
    assert f"between {ids[0]} and {ids[1]} (1 boundaries)" in warning


def test_a_commit_of_many_snapshots_is_found_whole_however_few_steps_fit(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(0))
    with table.transaction() as transaction:
        for number in range(20):
            transaction.append(rows(100 + number))
    table.append(rows(1))
    found = [len(step.snapshot_ids) for each in in_batches(table, max_steps=1) for step in each.steps]
    assert found == [1, 20, 1]


def test_far_behind_only_the_metadata_files_of_the_first_commits_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(tmp_path)
    for number in range(40):
        table.append(rows(number))
    read: list[str] = []
    read_file = MetadataLog._read

    def note_and_read(log: MetadataLog, path: str) -> Any:
        read.append(path)
        return read_file(log, path)

    monkeypatch.setattr(MetadataLog, "_read", note_and_read)
    assert len(plan_range(table, max_steps=2).steps) == 2
    assert 2 < len(read) < 20
