from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import IntegerType, PrimitiveType

from icefloe.iceberg.data_file import DataFile
from icefloe.iceberg.delete_file import DeleteFile, FileContent
from icefloe.iceberg.history.history import History, UnknownSnapshotError
from icefloe.iceberg.manifests.manifest_entries import DataEntry, DeleteEntry, EntryStatus, ManifestFile
from icefloe.iceberg.manifests.pyiceberg_avro import FieldSummary
from icefloe.iceberg.scan.changed_files import StepFiles
from icefloe.iceberg.step import Step, StepKind

ADDED, EXISTING, DELETED = EntryStatus.ADDED, EntryStatus.EXISTING, EntryStatus.DELETED


@dataclass
class FakeReader:
    """Manifests by snapshot and entries by manifest, without files."""

    lists: dict[int, list[ManifestFile]] = field(default_factory=dict)
    entries: dict[str, list[Any]] = field(default_factory=dict)
    read: list[str] = field(default_factory=list)
    key_types: dict[int, PrimitiveType] = field(default_factory=dict)
    partition_types: dict[int, list[PrimitiveType]] = field(default_factory=dict)

    def manifests(self, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        return tuple(self.lists[snapshot.snapshot_id])

    def data_entries(self, manifest: ManifestFile, paths: Collection[str] | None = None) -> list[DataEntry]:
        self.read.append(manifest.path)
        return [entry for entry in self.entries[manifest.path] if paths is None or entry.data_file.path in paths]

    def delete_entries(self, manifest: ManifestFile) -> tuple[DeleteEntry, ...]:
        self.read.append(manifest.path)
        return tuple(self.entries[manifest.path])

    def in_parallel(self, read: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        return [read(item) for item in items]

    def write(self, path: str, snapshot_id: int, *entries: DataEntry | DeleteEntry) -> ManifestFile:
        counts = {status: sum(entry.status is status for entry in entries) for status in EntryStatus}
        self.entries[path] = list(entries)
        return ManifestFile(
            path=path,
            spec_id=0,
            holds_deletes=any(isinstance(entry, DeleteEntry) for entry in entries),
            added_snapshot_id=snapshot_id,
            added_files_count=counts[ADDED],
            existing_files_count=counts[EXISTING],
            deleted_files_count=counts[DELETED],
        )


def data(path: str, status: EntryStatus, snapshot_id: int, sequence_number: int = 1, **facts: Any) -> DataEntry:
    file = DataFile(
        path=path,
        file_format="PARQUET",
        spec_id=0,
        record_count=1,
        file_size_bytes=1,
        sequence_number=sequence_number,
        **facts,
    )
    return DataEntry(
        status=status, snapshot_id=snapshot_id, data_file=file, partition=(0, ()), lower_bounds={}, upper_bounds={}
    )


def delete(path: str, status: EntryStatus, snapshot_id: int, sequence_number: int, **facts: Any) -> DeleteEntry:
    file = DeleteFile(
        path=path,
        content=FileContent.POSITION_DELETES,
        file_format="PARQUET",
        spec_id=0,
        record_count=1,
        file_size_bytes=1,
        sequence_number=sequence_number,
        **facts,
    )
    return DeleteEntry(
        status=status, snapshot_id=snapshot_id, delete_file=file, partition=(0, ()), is_unpartitioned=True
    )


def step(kind: StepKind, *snapshot_ids: int, start: int | None = None) -> Step:
    return Step(
        change_ordinal=0,
        kind=kind,
        start_snapshot_id=start,
        end_snapshot_id=snapshot_ids[-1],
        snapshot_ids=snapshot_ids,
        commit_snapshot_id=snapshot_ids[-1],
        commit_timestamp_us=0,
    )


def files(reader: FakeReader, *steps: Step) -> StepFiles:
    snapshots = {
        snapshot_id: Snapshot(snapshot_id=snapshot_id, parent_snapshot_id=None, timestamp_ms=0, manifest_list="")
        for snapshot_id in reader.lists
    }
    return StepFiles(steps, History(table_name="db.t", snapshots=snapshots, refs={}), reader)


def weights(reader: FakeReader, of: Step) -> dict[str, int]:
    return {term.entry.data_file.path: term.weight for term in files(reader, of).terms(of)}


def test_a_commit_is_the_entries_of_the_manifests_it_wrote() -> None:
    reader = FakeReader()
    old = reader.write("old", 1, data("a", ADDED, 1))
    new = reader.write("new", 2, data("b", ADDED, 2), data("c", EXISTING, 1))
    reader.lists = {2: [old, new]}
    assert weights(reader, step(StepKind.COMMIT, 2)) == {"b": 1}
    assert reader.read == ["new"]


def test_a_deleted_entry_belongs_to_its_manifest_s_snapshot_whatever_its_id_says() -> None:
    reader = FakeReader()
    reader.lists = {2: [reader.write("m", 2, data("a", DELETED, 1), data("b", DELETED, 2))]}
    assert weights(reader, step(StepKind.COMMIT, 2)) == {"a": -1, "b": -1}


def test_a_file_added_by_another_snapshot_is_left_out_with_a_warning() -> None:
    reader = FakeReader()
    reader.lists = {2: [reader.write("m", 2, data("a", ADDED, 1), data("b", ADDED, 2))]}
    of = step(StepKind.COMMIT, 2)
    planner = files(reader, of)
    assert [term.entry.data_file.path for term in planner.terms(of)] == ["b"]
    assert "lists 1 data files as added by other snapshots" in planner.warnings[0]


def test_a_file_listed_twice_counts_twice() -> None:
    reader = FakeReader()
    reader.lists = {2: [reader.write("m", 2, data("a", ADDED, 2), data("a", ADDED, 2))]}
    assert weights(reader, step(StepKind.COMMIT, 2)) == {"a": 2}


def test_the_first_row_id_is_kept_where_any_entry_has_it() -> None:
    reader = FakeReader()
    reader.lists = {
        1: [reader.write("m1", 1, data("a", ADDED, 1, first_row_id=70))],
        2: [reader.write("m2", 2, data("a", DELETED, 2), data("a", ADDED, 2))],
    }
    of = step(StepKind.COMMIT, 1, 2)
    assert [(term.entry.data_file.first_row_id, term.weight) for term in files(reader, of).terms(of)] == [(70, 1)]


def test_a_manifest_that_a_later_snapshot_gives_row_ids_has_them_from_then_on() -> None:
    reader = FakeReader()
    kept = reader.write("kept", 1, data("a", ADDED, 1))
    reader.lists = {
        2: [kept, reader.write("d2", 2, delete("x", ADDED, 2, 2))],
        3: [replace(kept, first_row_id=70), reader.write("d3", 3, delete("y", ADDED, 3, 3))],
    }
    inherit = reader.data_entries
    reader.data_entries = lambda manifest, paths=None: [
        replace(entry, data_file=replace(entry.data_file, first_row_id=manifest.first_row_id))
        for entry in inherit(manifest, paths)
    ]
    steps = [step(StepKind.COMMIT, 2), step(StepKind.COMMIT, 3)]
    planner = files(reader, *steps)
    found = [{term.entry.data_file.first_row_id for term in planner.terms(each)} for each in steps]
    assert found == [{None}, {70}]


def test_two_states_differ_by_their_files_and_not_by_their_manifests() -> None:
    reader = FakeReader()
    shared = reader.write("shared", 1, data("a", ADDED, 1))
    before = reader.write("before", 2, data("b", ADDED, 2), data("c", ADDED, 2), data("x", DELETED, 2))
    after = reader.write("after", 3, data("c", EXISTING, 2), data("d", ADDED, 3))
    reader.lists = {2: [shared, before], 3: [shared, after]}
    assert weights(reader, step(StepKind.STATES, 3, start=2)) == {"b": -1, "d": 1}
    assert reader.read == ["before", "after"]


def test_a_state_that_is_gone_is_an_error() -> None:
    reader = FakeReader(lists={3: []})
    with pytest.raises(UnknownSnapshotError, match="has no snapshot 2"):
        weights(reader, step(StepKind.STATES, 3, start=2))


def terms(reader: FakeReader, *of: Step) -> list[dict[str, list[tuple[int, list[str]]]]]:
    """For each step by data file (weight, delete files in force)."""
    step_files = files(reader, *of)
    found = []
    for each in of:
        by_path: dict[str, list[tuple[int, list[str]]]] = {}
        for term in step_files.terms(each):
            in_force = sorted(step_files.delete_file(number).path for number in term.delete_files)
            by_path.setdefault(term.entry.data_file.path, []).append((term.weight, in_force))
        found.append(by_path)
    return found


def test_a_delete_file_added_or_removed_counts_the_rows_before_less_and_the_rows_after_more() -> None:
    reader = FakeReader()
    old = reader.write("old", 1, data("a", ADDED, 1), data("b", ADDED, 1))
    first = reader.write("first", 2, delete("d", ADDED, 2, 2, referenced_data_file="a"))
    second = reader.write("second", 3, delete("d", DELETED, 3, 2, referenced_data_file="a"), delete(
        "e", ADDED, 3, 3, referenced_data_file="a"
    ))  # fmt: skip
    reader.lists = {1: [old], 2: [old, first], 3: [old, second]}
    assert terms(reader, step(StepKind.COMMIT, 2), step(StepKind.COMMIT, 3)) == [
        {"a": [(-1, []), (1, ["d"])]}, {"a": [(-1, ["d"]), (1, ["e"])]}
    ]  # fmt: skip
    assert terms(reader, step(StepKind.COMMIT, 2, 3)) == [{"a": [(-1, []), (1, ["e"])]}]
    assert reader.read.count("old") == 2


def test_a_delete_file_that_reaches_a_file_of_its_own_commit_is_in_force_on_it() -> None:
    reader = FakeReader()
    deletes = reader.write("deletes", 2, delete("d", ADDED, 2, 2))
    reader.lists = {2: [reader.write("new", 2, data("b", ADDED, 2, 2)), deletes]}
    assert terms(reader, step(StepKind.COMMIT, 2)) == [{"b": [(1, ["d"])]}]


def test_a_file_is_removed_with_the_delete_files_that_were_in_force_before() -> None:
    reader = FakeReader()
    gone = reader.write("gone", 3, data("a", DELETED, 3, 1), data("b", ADDED, 3, 3))
    dropped = reader.write("dropped", 3, delete("d", DELETED, 3, 2, referenced_data_file="a"))
    reader.lists = {3: [gone, dropped]}
    assert terms(reader, step(StepKind.COMMIT, 3)) == [{"a": [(-1, ["d"])], "b": [(1, [])]}]


def test_a_delete_manifest_rewritten_by_a_commit_is_no_change() -> None:
    reader = FakeReader()
    deletes = reader.write("m", 2, delete("d", EXISTING, 1, 1, referenced_data_file="a"))
    reader.lists = {2: [deletes, reader.write("new", 2, data("b", ADDED, 2, 2))]}
    assert terms(reader, step(StepKind.COMMIT, 2)) == [{"b": [(1, [])]}]


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (step(StepKind.COMMIT, 2), {"a": [(-1, ["d"])], "b": [(1, ["d"])]}),
        (step(StepKind.STATES, 2, start=1), {"a": [(-1, ["d"])], "b": [(1, ["d"])]}),
        (step(StepKind.INITIAL, 2), {"b": [(1, ["d"])]}),
    ],
    ids=str,
)
def test_every_file_has_its_delete_files_in_force(of: Step, expected: dict[str, Any]) -> None:
    reader = FakeReader()
    deletes = reader.write("deletes", 0, delete("d", ADDED, 0, 5))
    first = reader.write("first", 1, data("a", ADDED, 1, 1))
    gone = reader.write("gone", 2, data("a", DELETED, 2, 1), data("b", ADDED, 2, 4))
    reader.lists = {1: [deletes, first], 2: [deletes, gone]}
    assert terms(reader, of) == [expected]


def test_a_file_that_nets_to_nothing_is_left_out_whatever_is_in_force_on_it() -> None:
    reader = FakeReader()
    deletes = reader.write("deletes", 0, delete("d", ADDED, 0, 9, referenced_data_file="a"))
    reader.lists = {
        1: [deletes, reader.write("m1", 1, data("a", ADDED, 1))],
        2: [deletes, reader.write("m2", 2, data("a", DELETED, 2))],
    }
    assert terms(reader, step(StepKind.COMMIT, 1, 2)) == [{}]


def test_states_with_different_delete_files_differ_in_the_files_these_reach() -> None:
    reader = FakeReader()
    shared = reader.write("shared", 1, data("a", ADDED, 1), data("b", ADDED, 1))
    deletes = reader.write("deletes", 2, delete("d", ADDED, 2, 5, referenced_data_file="b"))
    reader.lists = {1: [shared], 2: [shared, deletes]}
    assert terms(reader, step(StepKind.STATES, 2, start=1)) == [{"b": [(-1, []), (1, ["d"])]}]
    assert terms(reader, step(StepKind.STATES, 1, start=2)) == [{"b": [(-1, ["d"]), (1, [])]}]


def test_a_compaction_between_two_steps_changes_what_is_in_force_without_a_term() -> None:
    reader = FakeReader()
    old = reader.write("old", 1, data("a", ADDED, 1))
    first = reader.write("first", 2, delete("d", ADDED, 2, 2, referenced_data_file="a"))
    merged = reader.write("merged", 3, delete("d", DELETED, 3, 2), delete("m", ADDED, 3, 2, referenced_data_file="a"))
    last = reader.write("last", 4, delete("e", ADDED, 4, 4, referenced_data_file="a"))
    reader.lists = {1: [old], 2: [old, first], 3: [old, merged], 4: [old, merged, last]}
    assert terms(reader, step(StepKind.COMMIT, 2), step(StepKind.COMMIT, 4)) == [
        {"a": [(-1, []), (1, ["d"])]}, {"a": [(-1, ["m"]), (1, ["e", "m"])]}
    ]  # fmt: skip


def test_delete_manifests_are_not_read_where_nothing_is_read() -> None:
    reader = FakeReader()
    reader.lists = {2: [reader.write("deletes", 1, delete("d", ADDED, 1, 5))]}
    assert terms(reader, step(StepKind.COMMIT, 2)) == [{}]
    assert reader.read == []


def in_partition(entry: Any, value: int) -> Any:
    return replace(entry, partition=(1, (value,)))


def days(manifest: ManifestFile, first: int, last: int) -> ManifestFile:
    lower, upper = (day.to_bytes(4, "little") for day in (first, last))
    summary = FieldSummary(contains_null=False, lower_bound=lower, upper_bound=upper)
    return replace(manifest, spec_id=1, partitions=(summary,))


def test_of_the_manifests_that_a_commit_left_alone_only_those_are_read_that_list_files_of_changed_partitions() -> None:
    reader = FakeReader(partition_types={0: [], 1: [IntegerType()]})
    old = [
        days(reader.write(f"day{day}", 1, in_partition(data(f"f{day}", ADDED, 1), day)), day, day) for day in range(9)
    ]
    unpartitioned = reader.write("unpartitioned", 1, data("u", ADDED, 1))
    changed = reader.write("changed", 2, in_partition(delete("d", ADDED, 2, 2), 4))
    reader.lists = {1: [*old, unpartitioned], 2: [*old, unpartitioned, changed]}
    assert terms(reader, step(StepKind.COMMIT, 2)) == [{"f4": [(-1, []), (1, ["d"])]}]
    assert set(reader.read) == {"changed", "day4"}
    reader.read.clear()
    assert terms(reader, step(StepKind.STATES, 2, start=1)) == [{"f4": [(-1, []), (1, ["d"])]}]
    assert set(reader.read) == {"changed", "day4"}


def test_equality_deletes_of_no_partition_reach_files_of_every_spec() -> None:
    reader = FakeReader(partition_types={0: [], 1: [IntegerType()]})
    old = [days(reader.write(f"day{day}", 1, in_partition(data(f"f{day}", ADDED, 1), day)), day, day) for day in (1, 2)]
    entry = delete("d", ADDED, 2, 2)
    entry = replace(entry, delete_file=replace(entry.delete_file, content=FileContent.EQUALITY_DELETES))
    reader.lists = {2: [*old, reader.write("changed", 2, entry)]}
    assert terms(reader, step(StepKind.COMMIT, 2)) == [{f"f{n}": [(-1, []), (1, ["d"])] for n in (1, 2)}]


def test_entries_of_files_that_no_changed_delete_file_names_are_not_built() -> None:
    asked = []

    class AskedReader(FakeReader):
        def data_entries(self, manifest: ManifestFile, paths: Collection[str] | None = None) -> list[DataEntry]:
            asked.append((manifest.path, paths))
            return super().data_entries(manifest, paths)

    reader = AskedReader()
    old = reader.write("old", 1, data("a", ADDED, 1), data("b", ADDED, 1))
    reader.lists = {2: [old, reader.write("new", 2, delete("d", ADDED, 2, 2, referenced_data_file="a"))]}
    assert terms(reader, step(StepKind.COMMIT, 2)) == [{"a": [(-1, []), (1, ["d"])]}]
    assert asked == [("old", {"a"})]
