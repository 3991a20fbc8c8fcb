from collections.abc import Container
from dataclasses import replace
from typing import Any

import pytest
from pyiceberg.types import IntegerType

from iceberg.scan.fake_manifests import (
    ADDED,
    DELETED,
    EXISTING,
    FakeReader,
    ReadFiles,
    data,
    days,
    delete,
    in_partition,
    step,
    terms,
)
from icefloe.iceberg.manifests.manifest_reader import DataEntry, ManifestFile, Partition
from icefloe.iceberg.step import StepKind


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


def test_delete_manifests_are_not_read_where_nothing_is_read() -> None:
    reader = FakeReader()
    reader.lists = {2: [reader.write("deletes", 1, delete("d", ADDED, 1, 5))]}
    assert terms(reader, step(StepKind.COMMIT, 2)) == [{}]
    assert reader.read == []


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


def test_entries_of_files_that_no_changed_delete_file_names_are_not_built() -> None:
    asked = []

    class AskedReader(FakeReader):
        def data_entries(self, manifest: ManifestFile, paths: Container[str] | None = None) -> list[DataEntry]:
            asked.append((manifest.path, paths))
            return super().data_entries(manifest, paths)

    reader = AskedReader()
    old = reader.write("old", 1, data("a", ADDED, 1), data("b", ADDED, 1))
    reader.lists = {2: [old, reader.write("new", 2, delete("d", ADDED, 2, 2, referenced_data_file="a"))]}
    assert terms(reader, step(StepKind.COMMIT, 2)) == [{"a": [(-1, []), (1, ["d"])]}]
    [(path, wanted)] = asked
    assert (path, [each for each in ("a", "b") if each in (wanted or ())]) == ("old", ["a"])


def test_files_that_stay_have_their_terms_in_groups_without_files_of_the_commit_itself() -> None:
    reader = FakeReader()
    old = reader.write("old", 1, data("a", ADDED, 1), data("b", ADDED, 1))
    new = reader.write("new", 2, data("c", ADDED, 2, 2), data("b2", EXISTING, 1))
    reader.lists = {2: [new, old, reader.write("deletes", 2, delete("d", ADDED, 2, 2))]}
    of = step(StepKind.COMMIT, 2)
    files = ReadFiles(reader, of)
    found = files.data.terms(of)
    assert [term.entry.file.path for term in found.single] == ["c", "b2", "b2"]
    [(targets, changes)] = found.kept
    assert [entry.file.path for entry in targets.entries] == ["a", "b"]
    assert changes.keys() == set(targets.reaches)
    assert terms(reader, of) == [{"c": [(1, ["d"])], **{path: [(-1, []), (1, ["d"])] for path in ("b2", "a", "b")}}]


NAMINGS: dict[str, dict[str, Any]] = {
    "a vector": {"referenced_data_file": "a.parquet", "content_offset": 4, "file_format": "PUFFIN"},
    "a reference": {"referenced_data_file": "a.parquet"},
    "bounds": {"paths": ("a.parquet", "a.parquet")},
}


@pytest.mark.parametrize("naming", NAMINGS)
@pytest.mark.parametrize("partition", [(1, (3,)), (1, (7,)), (1, (None,)), (2, (3,)), (2, ()), (0, ())], ids=str)
def test_a_delete_file_of_one_data_file_counts_by_its_path_whatever_partition_it_is_in(
    naming: str, partition: Partition
) -> None:
    reader = FakeReader(partition_types={0: [], 1: [IntegerType()], 2: [IntegerType()] * len(partition[1])})
    rows = [in_partition(data(path, ADDED, 1), 3) for path in ("a.parquet", "b.parquet")]
    old = [
        days(reader.write("rows", 1, *rows), 3, 3),
        days(reader.write("others", 1, in_partition(data("c.parquet", ADDED, 1), 9)), 9, 9),
    ]
    entry = delete(
        "d", ADDED, 2, 2, partition=partition, is_unpartitioned=naming != "a vector" and not partition[1],
        **NAMINGS[naming],
    )  # fmt: skip
    changed = replace(reader.write("changed", 2, entry), spec_id=partition[0])
    reader.lists = {1: old, 2: [*old, changed]}
    deleted = {"a.parquet": [(-1, []), (1, ["d"])]}
    added = {path: [(1, [])] for path in ("a.parquet", "b.parquet", "c.parquet")}
    assert terms(reader, step(StepKind.COMMIT, 2)) == [deleted]
    assert terms(reader, step(StepKind.STATES, 2, start=1)) == [deleted]
    assert terms(reader, step(StepKind.COMMIT, 1), step(StepKind.COMMIT, 2)) == [added, deleted]
    assert terms(reader, step(StepKind.INITIAL, 1), step(StepKind.COMMIT, 2)) == [added, deleted]
    assert terms(reader, step(StepKind.INITIAL, 2)) == [added | {"a.parquet": [(1, ["d"])]}]


def test_manifests_of_other_partitions_are_left_unread_where_the_files_of_vectors_are_found() -> None:
    reader = FakeReader(partition_types={0: [], 1: [IntegerType()]})
    rows = days(reader.write("rows", 1, in_partition(data("a", ADDED, 1), 3)), 3, 3)
    others = days(reader.write("others", 1, in_partition(data("c", ADDED, 1), 9)), 9, 9)
    vector = {"referenced_data_file": "a", "content_offset": 4, "file_format": "PUFFIN"}
    added = delete("d", ADDED, 2, 2, partition=(1, (3,)), is_unpartitioned=False, **vector)
    vectors = replace(reader.write("vectors", 2, added), spec_id=1)
    removed = reader.write("gone", 3, in_partition(data("a", DELETED, 3), 3))
    dropped = reader.write("dropped", 3, replace(added, status=DELETED))
    reader.lists = {1: [rows, others], 2: [rows, others, vectors], 3: [others, removed, dropped]}
    of = (step(StepKind.COMMIT, 2), step(StepKind.COMMIT, 3))
    assert terms(reader, *of) == [{"a": [(-1, []), (1, ["d"])]}, {"a": [(-1, ["d"])]}]
    assert "others" not in reader.read
