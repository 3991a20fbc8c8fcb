"""Terms of data files, gathered from steps that add files, keep them, and delete from them."""

from iceberg.scan.fake_manifests import ADDED, DELETED, EXISTING, FakeReader, ReadFiles, data, delete, step
from icefloe.iceberg.manifests.manifest_entries import DataEntry
from icefloe.iceberg.scan.scan_tasks import ScanTask, scan_tasks
from icefloe.iceberg.step import StepKind


def tasks(reader: FakeReader, *snapshot_ids: int, left_out: str = "") -> list[ScanTask]:
    steps = [step(StepKind.COMMIT, each) for each in snapshot_ids]
    of = ReadFiles(reader, *steps)

    def may_match(entry: DataEntry) -> bool:
        return entry.data_file.path != left_out

    by_ordinal = ((ordinal, of.data.read(each).terms(of.deletes.index)) for ordinal, each in enumerate(steps))
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


def test_files_that_stay_and_cannot_match_are_not_read() -> None:
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
