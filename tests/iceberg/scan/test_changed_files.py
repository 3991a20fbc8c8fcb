from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from iceberg.scan.fake_manifests import ADDED, DELETED, EXISTING, FakeReader, ReadFiles, data, delete, step, weights
from icefloe.errors import TerminalError
from icefloe.iceberg.step import LoadPart, Step, StepKind


@pytest.mark.parametrize(
    "contradiction",
    [data("a", ADDED, 1), data("a", EXISTING, 2), delete("d", ADDED, 1, 1), delete("d", EXISTING, 2, 1)],
    ids=["old and added", "new and existing", "old deletes added", "new deletes existing"],
)
def test_without_the_state_before_it_a_commit_that_contradicts_itself_is_an_error(contradiction: Any) -> None:
    reader = FakeReader()
    reader.lists = {2: [reader.write("m", 2, contradiction), reader.write("n", 2, data("b", ADDED, 2))]}
    of = step(StepKind.COMMIT, 2)
    with pytest.raises(TerminalError, match=r"snapshot 2 lists \w as \w+ by snapshot \d, and the snapshot before it"):
        ReadFiles(reader, of).terms(of)


def test_the_manifests_of_a_commit_are_read_once_although_the_next_one_replaces_them() -> None:
    reader = FakeReader()
    kept, files = data("a", EXISTING, 0), {number: f"f{number}" for number in (1, 2, 3)}
    reader.lists = {0: [reader.write("m0", 0, data("a", ADDED, 0))]}
    for number, path in files.items():
        gone = [data(files[number - 1], DELETED, number)] if number > 1 else []
        reader.lists[number] = [reader.write(f"m{number}", number, kept, *gone, data(path, ADDED, number))]
    steps = [step(StepKind.COMMIT, number) for number in files]
    planner = ReadFiles(reader, *steps)
    found = [{term.entry.file.path: term.weight for term in planner.terms(each)} for each in steps]
    assert found == [{"f1": 1}, {"f1": -1, "f2": 1}, {"f2": -1, "f3": 1}]
    assert reader.read == ["m0", "m1", "m2", "m3"]


def test_a_file_that_takes_other_values_from_its_partition_is_another_file() -> None:
    reader = FakeReader()
    before, after = {"2": None}, {"2": "2024-01-01"}
    listed = [data("a", DELETED, 2, constants=before), data("a", ADDED, 2, constants=after)]
    reader.lists = {2: [reader.write("m", 2, *listed)]}
    of = step(StepKind.COMMIT, 2)
    found = [(term.entry.file.constants, term.weight) for term in ReadFiles(reader, of).terms(of)]
    assert found == [(before, -1), (after, 1)]


def test_a_file_that_leaves_and_comes_back_to_its_partition_cancels_whatever_the_order_of_the_fields() -> None:
    reader = FakeReader()
    listed = [
        data("a", DELETED, 2, constants={"2": "x", "3": 1}), data("a", ADDED, 2, constants={"3": 1, "2": "x"}),
    ]  # fmt: skip
    reader.lists = {2: [reader.write("m", 2, *listed)]}
    assert weights(reader, step(StepKind.COMMIT, 2)) == {}


def test_the_first_row_id_is_kept_where_any_entry_has_it() -> None:
    reader = FakeReader()
    reader.lists = {
        1: [reader.write("m1", 1, data("a", ADDED, 1, first_row_id=70))],
        2: [reader.write("m2", 2, data("a", DELETED, 2), data("a", ADDED, 2))],
    }
    of = step(StepKind.COMMIT, 1, 2)
    assert [(term.entry.file.first_row_id, term.weight) for term in ReadFiles(reader, of).terms(of)] == [(70, 1)]


def test_a_manifest_that_a_later_snapshot_gives_row_ids_has_them_from_then_on() -> None:
    reader = FakeReader()
    kept = reader.write("kept", 1, data("a", ADDED, 1))
    reader.lists = {
        2: [kept, reader.write("d2", 2, delete("x", ADDED, 2, 2))],
        3: [replace(kept, first_row_id=70), reader.write("d3", 3, delete("y", ADDED, 3, 3))],
    }
    inherit = reader.data_entries
    reader.data_entries = lambda manifest, paths=None: [
        replace(entry, file=replace(entry.file, first_row_id=manifest.first_row_id))
        for entry in inherit(manifest, paths)
    ]
    steps = [step(StepKind.COMMIT, 2), step(StepKind.COMMIT, 3)]
    planner = ReadFiles(reader, *steps)
    found = [{term.entry.file.first_row_id for term in planner.terms(each)} for each in steps]
    assert found == [{None}, {70}]


@pytest.mark.parametrize(("first", "stop", "loaded"), [(0, 1, {"a": 2}), (1, 3, {"b": 1, "c": 1})])
def test_a_file_that_is_listed_twice_is_one_file_of_a_load_if_a_delete_file_reaches_one_of_them(
    first: int, stop: int, loaded: dict[str, int]
) -> None:
    reader = FakeReader()
    old = reader.write("old", 1, data("a", ADDED, 1), data("b", ADDED, 1))
    new = reader.write("new", 3, data("a", ADDED, 3, 3), data("c", ADDED, 3, 3))
    reader.lists = {3: [old, reader.write("d", 2, delete("d", ADDED, 2, 2)), new]}
    part = LoadPart(first_file=first, stop_file=stop, num_files=3)
    load = replace(Step.of(StepKind.INITIAL, [3], timestamp_ms=0), load_part=part)
    found: Counter[str] = Counter()
    for term in ReadFiles(reader, load).terms(load):
        found[term.entry.file.path] += term.weight
    assert found == loaded
