"""Terms of data files, gathered from steps that add files, keep them, and delete from them."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform
from pyroaring import FrozenBitMap

from iceberg.scan.fake_manifests import ADDED, DELETED, EXISTING, FakeReader, ReadFiles, data, delete, step
from icefloe.iceberg.manifests.manifest_reader import DataEntry
from icefloe.iceberg.scan.changed_files import FileTerm, StepTerms
from icefloe.iceberg.scan.delete_file_index import NO_DELETES
from icefloe.iceberg.scan.scan_tasks import FirstRowIds, ScanPlan, ScanTask, Term, row_ids_of_step, scan_tasks
from icefloe.iceberg.step import StepKind
from support.tables.planning_tables import (
    appended,
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
    for each in planned.steps:
        assert planned_weights(plan, each.change_ordinal) == expected_weights(table, each)


@pytest.mark.parametrize(
    ("format_version", "commit_groups", "properties"),
    [
        (1, "fuse", {}),
        (2, "split", {}),
        (2, "fuse", {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}),
    ],
    ids=["format 1", "split", "manifests merged"],
)
def test_the_files_of_each_step_are_the_difference_of_the_live_files(
    tmp_path: Path, format_version: int, commit_groups: str, properties: dict[str, str]
) -> None:
    table = make_table(tmp_path, format_version=format_version, **properties)
    table.append(rows(1, 2, 3))
    table.append(rows(4, 5, 6))
    table.delete(EqualTo(term="id", value=2))
    table.overwrite(rows(4, 7, value="b"), EqualTo(term="id", value=4))
    table.delete("id >= 5 and id <= 6")
    table.upsert(rows(1, 8, value="c"), ["id"])
    with table.transaction() as transaction:
        transaction.append(rows(9))
        transaction.delete(EqualTo(term="id", value=9))
    table.append(rows())
    check_every_range(table, commit_groups=commit_groups)


def test_partition_evolution_keeps_every_file_and_its_constants(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1, 2, day=1))
    with table.update_spec() as update:
        update.add_identity("day")
        update.add_field("id", BucketTransform(4), "id_bucket")
    table.append(rows(3, 4, day=2))
    table.delete(EqualTo(term="value", value="a"))
    check_every_range(table)
    plan = plan_scan_tasks(table, plan_range(table).steps)
    by_spec = {task.data_file.spec_id: task for task in plan.tasks}
    assert by_spec[0].data_file.constants == {}
    assert by_spec[1].data_file.constants == {"3": 2}
    assert by_spec[1].partition[1][0] == 2
    assert by_spec[1].lower_bounds[1] <= by_spec[1].upper_bounds[1]


def test_the_initial_load_reads_every_live_file(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1, 2))
    table.append(rows(3))
    table.delete(EqualTo(term="id", value=1))
    steps = plan_range(table, load="full").steps
    plan = plan_scan_tasks(table, steps)
    assert [each.kind for each in steps] == [StepKind.INITIAL]
    assert planned_weights(plan, 0) == expected_weights(table, steps[0])
    assert plan.inserts_only
    assert plan.record_count == 2
    assert plan.file_size_bytes > 0


def test_a_rollback_is_the_difference_of_two_states_and_shared_manifests_are_not_read(tmp_path: Path) -> None:
    table = appended(tmp_path, 4)
    _, second, _, fourth = snapshot_ids(table)
    table.manage_snapshots().rollback_to_snapshot(second).commit()
    table.append(rows(10))
    planned = plan_range(table, after_snapshot_id=fourth, on_rollback="compensate")
    plan = plan_scan_tasks(table, planned.steps)
    assert [each.kind for each in planned.steps] == [StepKind.STATES, StepKind.COMMIT]
    for each in planned.steps:
        assert planned_weights(plan, each.change_ordinal) == expected_weights(table, each)
    assert set(planned_weights(plan, 0).values()) == {-1}
    assert plan.manifests_read == 3


def test_the_start_of_a_commit_may_expire_while_its_batch_is_open(tmp_path: Path) -> None:
    table = appended(tmp_path, 2)
    first, second = snapshot_ids(table)
    steps = plan_range(table, after_snapshot_id=first).steps
    table.maintenance.expire_snapshots().by_id(first).commit()
    plan = plan_scan_tasks(table, steps)
    assert steps[0].end_snapshot_id == second
    assert [weights(task) for task in plan.tasks] == [[(0, 1)]]


def test_steps_whose_rows_delete_files_decide_are_reported(tmp_path: Path) -> None:
    vector = FrozenBitMap([4])
    terms = (
        Term(change_ordinal=0, weight=1),
        Term(change_ordinal=2, weight=-1),
        Term(change_ordinal=2, weight=1, delete_files=vector),
        Term(change_ordinal=3, weight=-1, delete_files=vector),
    )
    task = ScanTask(data_file=data("a", ADDED, 1).file, terms=terms, partition=(0, ()))
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


def tasks(reader: FakeReader, *snapshot_ids: int, left_out: str = "") -> list[ScanTask]:
    steps = [step(StepKind.COMMIT, each) for each in snapshot_ids]
    of = ReadFiles(reader, *steps)

    def may_match(entry: DataEntry) -> bool:
        return entry.file.path != left_out

    by_ordinal = ((ordinal, of.data.terms(each)) for ordinal, each in enumerate(steps))
    return list(scan_tasks(by_ordinal, {}, may_match=may_match))


def two_deletes() -> FakeReader:
    """Files a and b of one manifest: snapshot 2 deletes from a, snapshot 3 from b."""
    reader = FakeReader()
    old = reader.write("old", 1, data("a", ADDED, 1), data("b", ADDED, 1))
    from_a = reader.write("from a", 2, delete("d", ADDED, 2, 2, referenced_data_file="a"))
    from_b = reader.write("from b", 3, delete("e", ADDED, 3, 3, referenced_data_file="b"))
    reader.lists = {2: [old, from_a], 3: [old, from_a, from_b]}
    return reader


def test_a_step_has_no_terms_of_files_whose_delete_files_stay_as_they_are() -> None:
    found = {task.data_file.path: [term.change_ordinal for term in task.terms] for task in tasks(two_deletes(), 2, 3)}
    assert found == {"a": [0, 0], "b": [1, 1]}
    assert [task.data_file.path for task in tasks(two_deletes(), 2, 3, left_out="a")] == ["b"]


def test_a_file_in_two_partitions_is_read_once_with_the_constants_of_each() -> None:
    reader = FakeReader()
    here, there = {"2": 1}, {"2": 2}
    listed = reader.write("old", 1, data("a", ADDED, 1, constants=here), data("a", ADDED, 1, constants=there))
    removed = reader.write("new", 3, data("a", EXISTING, 1, constants=here), data("a", DELETED, 3, constants=there))
    deletes = reader.write("d", 2, delete("d", ADDED, 2, 2))
    reader.lists = {1: [listed], 2: [listed, deletes], 3: [removed, deletes]}
    read = tasks(reader, 1, 2, 3)
    found = [(task.data_file.constants, [term.change_ordinal for term in task.terms]) for task in read]
    assert found == [(here, [0, 1, 1]), (there, [0, 1, 1, 2])]


def test_a_file_that_stays_has_the_row_ids_of_the_first_manifest_that_knows_them() -> None:
    reader = FakeReader()
    old = reader.write("old", 1, data("a", ADDED, 1))
    known = [reader.write(name, 1, data("a", ADDED, 1, first_row_id=row_id)) for name, row_id in (("v3", 7), ("v4", 9))]
    deletes = [reader.write(f"deletes {n}", n, delete(f"d{n}", ADDED, n, n)) for n in (2, 3, 4)]
    reader.lists = {2: [old, *deletes[:1]], 3: [known[0], *deletes[:2]], 4: [known[1], *deletes]}
    [task] = tasks(reader, 2, 3, 4)
    assert task.data_file.first_row_id == 7
    assert [(term.change_ordinal, term.weight) for term in task.terms] == [(n, w) for n in range(3) for w in (-1, 1)]


Terms = list[tuple[int, list[FileTerm]]]


def term(path: str, weight: int, first_row_id: int | None, **constants: int) -> FileTerm:
    entry = data(path, ADDED, 1, first_row_id=first_row_id, constants=constants)
    return FileTerm(entry=entry, weight=weight, delete_files=NO_DELETES)


def row_ids_of(terms: Terms) -> dict[int, FirstRowIds]:
    found = {ordinal: row_ids_of_step(each) for ordinal, each in terms}
    return {ordinal: row_ids for ordinal, row_ids in found.items() if row_ids is not None}


def read(terms: Terms) -> list[tuple[str, int | None, list[int]]]:
    """Each task: its file, the row ids it is read with, and the steps that it is read for."""
    return [
        (task.data_file.path, task.data_file.first_row_id, [each.change_ordinal for each in task.terms])
        for task in scan_tasks([(ordinal, StepTerms(each)) for ordinal, each in terms], row_ids_of(terms))
    ]


def test_one_file_without_row_ids_takes_them_from_its_step() -> None:
    terms = [(0, [term("a", -1, None), term("b", 1, 7)]), (1, [term("b", -1, 7), term("c", 1, 9)])]
    assert row_ids_of(terms) == {0: {}, 1: {"b": 7, "c": 9}}
    assert read(terms) == [("a", None, [0]), ("b", None, [0]), ("b", 7, [1]), ("c", 9, [1])]


def test_a_file_whose_steps_give_it_other_row_ids_is_read_with_each() -> None:
    terms = [
        (0, [term("a", 1, 0)]),
        (1, [term("a", -1, 0), term("b", 1, 5)]),
        (2, [term("b", -1, 20), term("a", 1, 30)]),
    ]
    assert read(terms) == [("a", 0, [0, 1]), ("a", 30, [2]), ("b", 5, [1]), ("b", 20, [2])]


def test_steps_that_only_add_or_only_remove_read_no_file_again() -> None:
    terms = [
        (0, [term("a", 1, None)]),
        (1, [term("a", -1, 10), term("b", 1, 30)]),
        (2, [term("b", -1, 50)]),
    ]
    assert row_ids_of(terms) == {1: {"a": 10, "b": 30}}
    assert read(terms) == [("a", 10, [0, 1]), ("b", 30, [1, 2])]
