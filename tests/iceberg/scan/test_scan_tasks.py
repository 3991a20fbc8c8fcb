import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform
from pyroaring import FrozenBitMap

from icefloe.iceberg.data_file import DataFile
from icefloe.iceberg.history.history import UnknownSnapshotError
from icefloe.iceberg.scan.scan_tasks import ScanPlan, ScanTask, Term
from icefloe.iceberg.step import StepKind
from support.tables.planning_tables import (
    expected_weights,
    make_table,
    plan_range,
    plan_scan_tasks,
    planned_weights,
    rows,
    snapshot_ids,
)


def weights(task: ScanTask) -> list[tuple[int, int]]:
    return [(term.change_ordinal, term.weight) for term in task.terms]


def check_every_range(table: Table, *, commit_groups: str = "fuse", **options: Any) -> None:
    planned = plan_range(table, commit_groups=commit_groups, **options)
    plan = plan_scan_tasks(table, planned.steps)
    for step in planned.steps:
        assert planned_weights(plan, step.change_ordinal) == expected_weights(table, step)


@pytest.mark.parametrize("format_version", [1, 2])
@pytest.mark.parametrize("commit_groups", ["fuse", "split"])
def test_the_files_of_each_step_are_the_difference_of_the_live_files(
    tmp_path: Path, format_version: int, commit_groups: str
) -> None:
    table = make_table(tmp_path, format_version=format_version)
    table.append(rows(1, 2, 3))
    table.append(rows(4, 5, 6))
    table.delete(EqualTo(term="id", value=2))
    table.overwrite(rows(4, 7, value="b"), EqualTo(term="id", value=4))
    table.delete("id >= 5 and id <= 6")
    table.upsert(rows(1, 8, value="c"), ["id"])
    table.append(rows())
    check_every_range(table, commit_groups=commit_groups)


def test_manifest_merging_does_not_repeat_older_files(tmp_path: Path) -> None:
    table = make_table(tmp_path, **{"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"})
    for number in range(5):
        table.append(rows(number))
    table.delete(EqualTo(term="id", value=3))
    check_every_range(table)


def test_partition_evolution_keeps_every_file_and_its_constants(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1, 2, day=1))
    with table.update_spec() as update:
        update.add_identity("day")
        update.add_field("id", BucketTransform(4), "id_bucket")
    table.append(rows(3, 4, day=2))
    table.delete(EqualTo(term="value", value="a"))
    planned = plan_range(table)
    plan = plan_scan_tasks(table, planned.steps)
    for step in planned.steps:
        assert planned_weights(plan, step.change_ordinal) == expected_weights(table, step)
    by_spec = {task.data_file.spec_id: task for task in plan.tasks}
    assert by_spec[0].data_file.constants == {}
    assert by_spec[1].data_file.constants == {"3": 2}
    assert by_spec[1].partition[1][0] == 2
    assert by_spec[1].lower_bounds[1] <= by_spec[1].upper_bounds[1]


def test_a_file_added_and_removed_in_different_steps_is_read_once_with_both_weights(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1))
    table.delete(EqualTo(term="id", value=1))
    plan = plan_scan_tasks(table, plan_range(table).steps)
    assert [weights(task) for task in plan.tasks] == [[(0, 1), (1, -1)]]
    assert not plan.inserts_only


def test_a_file_added_and_removed_inside_one_commit_group_is_not_read(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(9))
    with table.transaction() as transaction:
        transaction.append(rows(1))
        transaction.delete(EqualTo(term="id", value=1))
        transaction.append(rows(2))
    steps = plan_range(table).steps
    plan = plan_scan_tasks(table, steps)
    assert len(steps) == 2
    assert sum(planned_weights(plan, 1).values()) == 1
    assert planned_weights(plan, 1) == expected_weights(table, steps[1])


def test_the_initial_load_reads_every_live_file(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1, 2))
    table.append(rows(3))
    table.delete(EqualTo(term="id", value=1))
    steps = plan_range(table, load="full").steps
    plan = plan_scan_tasks(table, steps)
    assert [step.kind for step in steps] == [StepKind.INITIAL]
    assert planned_weights(plan, 0) == expected_weights(table, steps[0])
    assert plan.inserts_only
    assert plan.record_count == 2
    assert plan.file_size_bytes > 0


def test_a_rollback_is_the_difference_of_two_states_and_shared_manifests_are_not_read(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    for number in range(4):
        table.append(rows(number))
    first, second, _, fourth = snapshot_ids(table)
    table.manage_snapshots().rollback_to_snapshot(second).commit()
    table.append(rows(10))
    planned = plan_range(table, after_snapshot_id=fourth, on_rollback="compensate")
    plan = plan_scan_tasks(table, planned.steps)
    assert [step.kind for step in planned.steps] == [StepKind.STATES, StepKind.COMMIT]
    for step in planned.steps:
        assert planned_weights(plan, step.change_ordinal) == expected_weights(table, step)
    assert planned_weights(plan, 0).values() == {-1: 1}.keys() or set(planned_weights(plan, 0).values()) == {-1}
    assert plan.manifests_read == 3
    assert first != second


def test_the_start_of_a_commit_may_expire_while_its_batch_is_open(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1))
    table.append(rows(2))
    first, second = snapshot_ids(table)
    steps = plan_range(table, after_snapshot_id=first).steps
    table.maintenance.expire_snapshots().by_id(first).commit()
    plan = plan_scan_tasks(table, steps)
    assert steps[0].end_snapshot_id == second
    assert [weights(task) for task in plan.tasks] == [[(0, 1)]]


def test_no_steps_need_no_manifest(tmp_path: Path) -> None:
    plan = plan_scan_tasks(make_table(tmp_path), ())
    assert plan.tasks == ()
    assert plan.manifests_read == 0
    assert plan.inserts_only


def test_steps_whose_rows_delete_files_decide_are_reported(tmp_path: Path) -> None:
    data_file = DataFile(
        path="a", file_format="PARQUET", spec_id=0, record_count=1, file_size_bytes=1, sequence_number=1
    )
    vector = FrozenBitMap([4])
    terms = (
        Term(change_ordinal=0, weight=1),
        Term(change_ordinal=2, weight=-1),
        Term(change_ordinal=2, weight=1, delete_files=vector),
        Term(change_ordinal=3, weight=-1, delete_files=vector),
    )
    task = ScanTask(data_file=data_file, terms=terms, partition=(0, ()))
    assert ScanPlan(tasks=(task,)).ordinals_with_deletes == {2, 3}


def test_a_file_that_the_table_lists_twice_is_read_once_with_twice_the_weight(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1, 2))
    path = table.inspect.files()["file_path"][0].as_py().removeprefix("file://")
    copy = shutil.copy(path, tmp_path / "copy.parquet")
    with table.transaction() as transaction:
        for _ in range(2):
            transaction.add_files([f"file://{copy}"], check_duplicate_files=False)
    table.add_files([f"file://{copy}"], check_duplicate_files=False)
    table.delete(EqualTo(term="id", value=2))
    check_every_range(table)
    plan = plan_scan_tasks(table, plan_range(table).steps)
    [copied] = [task for task in plan.tasks if task.data_file.path.endswith("copy.parquet")]
    assert weights(copied) == [(1, 2), (2, 1), (3, -3)]


def test_a_state_that_is_gone_is_an_error(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1))
    [step] = plan_range(table).steps
    gone = replace(step, kind=StepKind.STATES, start_snapshot_id=2)
    with pytest.raises(UnknownSnapshotError, match="has no snapshot 2"):
        plan_scan_tasks(table, [gone])
