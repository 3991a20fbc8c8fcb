from pathlib import Path

import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot, Summary

from icefloe.iceberg.history.history import History
from icefloe.iceberg.history.summaries import changed_records, deletes_added, file_bytes_bound, total_records
from icefloe.iceberg.step import Step, StepKind
from support.tables.planning_tables import edit_metadata, make_table, plan_range, rows, snapshot_ids


def snapshot(**summary: str) -> Snapshot:
    return Snapshot(
        snapshot_id=1,
        parent_snapshot_id=None,
        timestamp_ms=0,
        manifest_list="",
        summary=Summary(Operation.OVERWRITE, **summary),
    )


@pytest.mark.parametrize(
    ("summary", "counts"),
    [
        ({"added-records": "5", "deleted-records": "2"}, (5, 2)),
        ({"total-records": "8"}, (0, 0)),
        ({"added-data-files": "1"}, None),
        ({"added-records": "5", "deleted-data-files": "1"}, None),
        ({"added-records": "many", "total-records": "1"}, None),
        ({"added-records": "1" * 5000, "total-records": "1"}, None),
        ({"added-records": str(2**63), "total-records": "1"}, None),
    ],
)
def test_a_count_that_is_left_out_is_zero_only_where_its_files_are_left_out_too(
    summary: dict[str, str], counts: tuple[int, int] | None
) -> None:
    assert changed_records(snapshot(**summary)) == counts
    bare = Snapshot(snapshot_id=1, parent_snapshot_id=None, timestamp_ms=0, manifest_list="", summary=None)
    assert (changed_records(None), changed_records(bare), total_records(bare)) == (None, None, None)


@pytest.mark.parametrize(
    ("summary", "bound"),
    [
        ({"added-data-files": "1", "added-files-size": "7"}, 107),
        ({"deleted-data-files": "1"}, 100),
        ({"added-data-files": "1"}, None),
        ({}, None),
    ],
)
def test_a_commit_adds_no_bytes_only_if_its_summary_counts_files(summary: dict[str, str], bound: int | None) -> None:
    start, commit = snapshot(**{"total-files-size": "100"}), snapshot(**summary)
    step = Step.of(StepKind.COMMIT, [2], timestamp_ms=0, start_snapshot_id=1)
    assert file_bytes_bound({1: start, 2: commit}, [step]) == bound


@pytest.mark.parametrize(
    ("summary", "count"),
    [
        ({}, 0),
        ({"added-position-deletes": "5", "removed-position-deletes": "3"}, 2),
        ({"removed-position-deletes": "3", "added-equality-deletes": "4"}, 4),
    ],
)
def test_deletes_that_were_only_rewritten_do_not_count(summary: dict[str, str], count: int) -> None:
    assert deletes_added(snapshot(**summary)) == count


def row_delta(table: Table, step: Step) -> int | None:
    return History.of(table).row_delta(step)


def test_the_delta_of_a_step_is_what_its_rows_will_add_up_to(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1, 2, 3))
    table.delete(EqualTo(term="id", value=2))
    table.upsert(rows(1, 8, 9, value="b"), ["id"])
    table.append(rows())
    assert [row_delta(table, step) for step in plan_range(table).steps] == [3, -1, 2, 0]
    assert [row_delta(table, step) for step in plan_range(table, load="full").steps] == [4]
    first, last = snapshot_ids(table)[0], snapshot_ids(table)[-1]
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    (states,) = plan_range(table, after_snapshot_id=last, on_rollback="compensate").steps
    assert row_delta(table, states) == -1
    edit_metadata(table, snapshots=[s for s in table.metadata.snapshots if s.snapshot_id != last])
    assert row_delta(table, states) is None
