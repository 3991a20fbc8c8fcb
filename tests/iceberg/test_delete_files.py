from typing import Any

import pytest

from icefloe.iceberg.data_file import DataFile
from icefloe.iceberg.delete_file import DeleteFile, FileContent
from icefloe.iceberg.delete_files import DeleteFiles
from icefloe.iceberg.manifest_entries import DataEntry, DeleteEntry, EntryStatus, Partition

HERE: Partition = (1, ("2020-01-01",))
ELSEWHERE: Partition = (1, ("2020-01-02",))
PATHS = 2147483546


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
    ],
)
def test_position_deletes_reach_files_of_their_partition_that_are_not_newer(changes: dict, applies: bool) -> None:
    assert bool(DeleteFiles([delete_entry(**changes)]).of(data_entry())) is applies


@pytest.mark.parametrize(
    ("changes", "applies"),
    [
        ({"sequence_number": 5}, False),
        ({"sequence_number": 6}, True),
        ({"sequence_number": 6, "partition": ELSEWHERE}, False),
        ({"sequence_number": 6, "partition": (0, ()), "is_unpartitioned": True}, True),
        ({"sequence_number": 5, "partition": (0, ()), "is_unpartitioned": True}, False),
    ],
)
def test_equality_deletes_reach_older_files_of_their_partition_or_of_all(changes: dict, applies: bool) -> None:
    delete_files = DeleteFiles([delete_entry(content=FileContent.EQUALITY_DELETES, **changes)])
    assert bool(delete_files.of(data_entry())) is applies


def test_a_deletion_vector_replaces_position_delete_files_and_no_equality_deletes() -> None:
    vector = {"file_format": "PUFFIN", "referenced_data_file": "s3://b/m.parquet", "content_offset": 4}
    delete_files = DeleteFiles(
        [
            delete_entry(path="positions"),
            delete_entry(path="vector", **vector),
            delete_entry(path="equality", content=FileContent.EQUALITY_DELETES, sequence_number=6),
        ]
    )
    assert sorted(delete_files.of(data_entry())) == [("equality", None), ("vector", 4)]
    assert sorted(delete_files.of(data_entry("s3://b/n.parquet"))) == [("equality", None), ("positions", None)]


def test_deletion_vectors_in_one_file_are_told_apart_by_their_place() -> None:
    one, other = delete_entry(content_offset=4), delete_entry(content_offset=90)
    assert one.identity != other.identity
