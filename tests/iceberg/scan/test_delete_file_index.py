import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.types import DoubleType, LongType

from icefloe.iceberg.data_file import DataFile, DeleteFile, FileContent, constant_to_json
from icefloe.iceberg.manifests.manifest_entries import DataEntry, DeleteEntry, EntryStatus, Partition
from icefloe.iceberg.scan.delete_file_index import DeleteFileIndex, DeleteNumbers, KeyTypes

HERE: Partition = (1, ("2020-01-01",))
ELSEWHERE: Partition = (1, ("2020-01-02",))
PATHS = 2147483546


EQUALITY = {"sequence_number": 6, "equality_field_ids": (7,)}


def long_key(lower: int, upper: int) -> dict[str, Any]:
    """The metrics of column 7 without nulls."""
    bounds = {name: {7: value.to_bytes(8, "little")} for name, value in (("lower", lower), ("upper", upper))}
    return {"lower_bounds": bounds["lower"], "upper_bounds": bounds["upper"], "null_value_counts": {7: 0}}


def data_entry(path: str = "s3://b/m.parquet", sequence_number: int = 5) -> DataEntry:
    file = DataFile(
        path=path, file_format="PARQUET", spec_id=1, record_count=1, file_size_bytes=1, sequence_number=sequence_number
    )
    return DataEntry(
        status=EntryStatus.ADDED, snapshot_id=1, data_file=file, partition=HERE, lower_bounds={}, upper_bounds={}
    )


def delete_entry(
    *, partition: Partition = HERE, is_unpartitioned: bool = False, lower: bytes = b"", upper: bytes = b"", **facts: Any
) -> DeleteEntry:
    known: dict[str, Any] = {
        "path": "s3://b/d.parquet",
        "content": FileContent.POSITION_DELETES,
        "file_format": "PARQUET",
        "spec_id": 1,
        "record_count": 1,
        "file_size_bytes": 1,
        "sequence_number": 5,
    }
    return DeleteEntry(
        status=EntryStatus.ADDED,
        snapshot_id=1,
        delete_file=DeleteFile(**(known | facts)),
        partition=partition,
        is_unpartitioned=is_unpartitioned,
        lower_bounds={PATHS: lower} if lower else {},
        upper_bounds={PATHS: upper} if upper else {},
    )


def in_force(index: DeleteFileIndex, data: DataEntry, state: Iterable[int]) -> list[int]:
    """The numbers of the delete files in force on a data file at a state."""
    [found] = index.in_force_at(DeleteNumbers(state))(index.reach(data))
    return list(found)


def index_of_sequence_numbers(numbers: Iterable[int]) -> DeleteFileIndex:
    return DeleteFileIndex([delete_entry(path=f"s3://b/d{n}", sequence_number=n) for n in numbers], {})


def reaching(data: DataEntry, *entries: DeleteEntry, key_types: KeyTypes | None = None) -> list[str]:
    """The paths of the delete files that are in force on a data file where all of them are live."""
    index = DeleteFileIndex(entries, key_types or {})
    return [index[number].path for number in in_force(index, data, range(len(entries)))]


@pytest.mark.parametrize(
    ("changes", "applies"),
    [
        ({}, True),
        ({"sequence_number": 4}, False),
        ({"sequence_number": 6}, True),
        ({"partition": ELSEWHERE}, False),
        ({"partition": (2, HERE[1])}, False),
        ({"referenced_data_file": "s3://b/m.parquet"}, True),
        ({"referenced_data_file": "s3://b/n.parquet"}, False),
        ({"lower": b"s3://b/m", "upper": b"s3://b/n"}, True),
        ({"lower": b"s3://b/n", "upper": b"s3://b/z"}, False),
        ({"lower": b"s3://b/a", "upper": b"s3://b/b"}, False),
        ({"lower": b"s3://b/m.parquet", "upper": b"s3://b/m.parquet"}, True),
        *(
            ({"lower": b"s3://b/m.parquet", "upper": b"s3://b/m.parquet", "partition": partition} | more, not more)
            for partition in (ELSEWHERE, (1, (None,)), (2, HERE[1]), (0, ()))
            for more in ({}, {"sequence_number": 4}, {"referenced_data_file": "s3://b/n.parquet"})
        ),
        ({"lower": b"s3://b/m", "upper": b"s3://b/m"}, True),
        ({"lower": b"s3://b/m", "upper": b"s3://b/m", "partition": ELSEWHERE}, False),
        ({"lower": b"s3://a", "upper": b"s3://b"}, True),
    ],
)
def test_position_deletes_reach_the_file_that_they_name_or_those_of_their_partition_that_are_not_newer(
    changes: dict[str, Any], applies: bool
) -> None:
    assert bool(reaching(data_entry(), delete_entry(**changes))) is applies


@pytest.mark.parametrize(
    ("changes", "applies"),
    [
        ({"sequence_number": 5}, False),
        ({"sequence_number": 6}, True),
        ({"sequence_number": 6, "partition": ELSEWHERE}, False),
        ({"sequence_number": 6, "referenced_data_file": "s3://b/n.parquet"}, True),
        ({"sequence_number": 6, "partition": (0, ()), "is_unpartitioned": True}, True),
        ({"sequence_number": 5, "partition": (0, ()), "is_unpartitioned": True}, False),
    ],
)
def test_equality_deletes_reach_older_files_of_their_partition_or_of_all(
    changes: dict[str, Any], applies: bool
) -> None:
    entry = delete_entry(content=FileContent.EQUALITY_DELETES, **changes)
    assert bool(reaching(data_entry(), entry)) is applies


NAMES = st.text("aé/", min_size=1, max_size=4)
SOME_PARTITION = st.sampled_from([HERE, ELSEWHERE, (2, HERE[1]), (0, ())])
SOME_NUMBER = st.integers(4, 6)
POSITION_DELETES = st.builds(
    delete_entry,
    partition=SOME_PARTITION, sequence_number=SOME_NUMBER, referenced_data_file=st.none() | NAMES,
    lower=st.just(b"") | NAMES.map(str.encode), upper=st.just(b"") | NAMES.map(str.encode),
) | st.builds(
    lambda name, **facts: delete_entry(lower=name, upper=name, **facts),
    name=NAMES.map(str.encode), partition=SOME_PARTITION, sequence_number=SOME_NUMBER,
)  # fmt: skip


def applies_by_the_spec(deletes: DeleteEntry, data: DataEntry) -> bool:
    """A name is the path, whatever the partition is; without one, partition and bounds decide, which may be cut."""
    path, reference = data.data_file.path, deletes.delete_file.referenced_data_file
    lower, upper = deletes.lower_bounds.get(PATHS), deletes.upper_bounds.get(PATHS)
    if data.data_file.sequence_number > deletes.delete_file.sequence_number:
        return False
    if reference is not None or lower == upper == path.encode():
        return reference in {None, path}
    is_within = (lower or b"") <= path.encode() and (upper is None or path.encode()[: len(upper)] <= upper)
    return deletes.partition == data.partition and is_within


@given(
    entries=st.lists(POSITION_DELETES, max_size=8),
    paths=st.lists(st.tuples(NAMES, SOME_NUMBER, SOME_PARTITION), max_size=8),
)
def test_position_deletes_reach_what_the_spec_lets_them_reach_whichever_others_there_are(
    entries: list[DeleteEntry], paths: list[tuple[str, int, Partition]]
) -> None:
    index = DeleteFileIndex(entries, {})
    for path, number, partition in paths:
        data = replace(data_entry(path, number), partition=partition)
        assert list(index.reach(data)) == [n for n, each in enumerate(entries) if applies_by_the_spec(each, data)]


def test_a_deletion_vector_replaces_position_delete_files_and_no_equality_deletes() -> None:
    vector = {"file_format": "PUFFIN", "referenced_data_file": "s3://b/m.parquet", "content_offset": 4}
    entries = [
        delete_entry(path="positions"),
        delete_entry(path="vector", **vector),
        delete_entry(path="equality", content=FileContent.EQUALITY_DELETES, sequence_number=6),
    ]
    assert reaching(data_entry(), *entries) == ["vector", "equality"]
    assert reaching(data_entry("s3://b/n.parquet"), *entries) == ["positions", "equality"]


def test_deletion_vectors_in_one_file_are_distinguished_by_their_place() -> None:
    one, other = delete_entry(content_offset=4), delete_entry(content_offset=90)
    assert one.identity != other.identity


def test_delete_files_in_force_follow_the_state() -> None:
    entries = [delete_entry(path="first"), delete_entry(path="second"), delete_entry(partition=ELSEWHERE)]
    index = DeleteFileIndex(entries, {})
    assert in_force(index, data_entry(), [0]) == [0]
    assert in_force(index, data_entry(), [0, 1, 2]) == [0, 1]
    assert in_force(index, data_entry(), [1, 2]) == [1]


def test_a_delete_file_of_two_sequence_numbers_reaches_what_the_one_in_the_state_reaches() -> None:
    index = index_of_sequence_numbers((4, 6))
    assert in_force(index, data_entry(), [0]) == []
    assert in_force(index, data_entry(), [1]) == [1]


def test_equality_deletes_whose_keys_a_data_file_cannot_hold_do_not_reach_it() -> None:
    data = replace(data_entry(), **long_key(10, 19))
    entries = [
        replace(
            delete_entry(path=f"{lower}", content=FileContent.EQUALITY_DELETES, **EQUALITY), **long_key(lower, upper)
        )
        for lower, upper in ((0, 9), (5, 10), (12, 15), (19, 30), (20, 30))
    ]
    assert reaching(data, *entries, key_types={7: LongType()}) == ["5", "12", "19"]
    assert len(reaching(data, *entries)) == 5


def test_each_state_has_its_own_delete_files_in_force_in_whatever_order_states_are_asked_for() -> None:
    old, new = (data_entry(f"s3://b/{name}.parquet", number) for name, number in (("old", 1), ("new", 8)))
    index = DeleteFileIndex(
        [delete_entry(path=f"s3://b/d{number}", sequence_number=number) for number in range(2, 12)], {}
    )
    states = [list(range(count)) for count in range(11)] + [[number] for number in range(10)]
    for state in (*states, *reversed(states), *states[::3]):
        assert in_force(index, old, state) == state
        assert in_force(index, new, state) == [number for number in state if number >= 6]


def test_states_that_are_asked_for_at_once_each_have_their_own_delete_files_in_force() -> None:
    index = DeleteFileIndex(
        [delete_entry(path=f"s3://b/d{number}", sequence_number=number) for number in range(2, 8)], {}
    )
    states = [range(2, 3), range(2), range(6)]
    at_states = index.in_force_at(*map(DeleteNumbers, states))
    for name, number in (("a", 1), ("b", 1), ("c", 4), ("a", 1), ("d", 9)):
        data = data_entry(f"s3://b/{name}.parquet", number)
        assert [list(found) for found in at_states(index.reach(data))] == [
            in_force(index, data, state) for state in states
        ]


def test_deletes_of_a_partition_leave_the_same_file_in_another_partition_alone() -> None:
    index = DeleteFileIndex([delete_entry()], {})
    assert in_force(index, data_entry(), [0]) == [0]
    assert in_force(index, replace(data_entry(), partition=ELSEWHERE), [0]) == []


ZEROS = (0.0, -0.0, math.nan, 1.5)


@pytest.mark.parametrize("content", [FileContent.EQUALITY_DELETES, FileContent.POSITION_DELETES])
def test_deletes_of_a_partition_of_minus_zero_leave_that_of_zero_alone(content: FileContent) -> None:
    partitions: list[Partition] = [(1, (constant_to_json(DoubleType(), value),)) for value in ZEROS]
    entries = [delete_entry(content=content, sequence_number=6, partition=partition) for partition in partitions]
    index = DeleteFileIndex(entries, {})
    for number, partition in enumerate(partitions):
        assert in_force(index, replace(data_entry(), partition=partition), range(len(ZEROS))) == [number]
