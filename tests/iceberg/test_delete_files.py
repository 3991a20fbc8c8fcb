import pytest

from icefloe.iceberg.data_file import DataFile
from icefloe.iceberg.delete_files import DeleteFile, DeleteFileInForceError, DeleteFiles, FileContent, Partition

HERE: Partition = (1, ("2020-01-01",))
ELSEWHERE: Partition = (1, ("2020-01-02",))


def data_file(path: str = "s3://b/m.parquet", sequence_number: int = 5) -> DataFile:
    return DataFile(
        path=path, file_format="PARQUET", spec_id=1, record_count=1, file_size_bytes=1, sequence_number=sequence_number
    )


def delete_file(**changes: object) -> DeleteFile:
    facts = {
        "path": "s3://b/d.parquet",
        "content": FileContent.POSITION_DELETES,
        "file_format": "PARQUET",
        "sequence_number": 5,
        "partition": HERE,
        "is_unpartitioned": False,
    }
    return DeleteFile(**{**facts, **changes})


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
        ({"lower_path": b"s3://b/m", "upper_path": b"s3://b/n"}, True),
        ({"lower_path": b"s3://b/n", "upper_path": b"s3://b/z"}, False),
        ({"lower_path": b"s3://b/a", "upper_path": b"s3://b/b"}, False),
        ({"lower_path": b"s3://b/m.parquet", "upper_path": b"s3://b/m.parquet"}, True),
    ],
)
def test_position_deletes_reach_files_of_their_partition_that_are_not_newer(changes: dict, applies: bool) -> None:
    assert bool(DeleteFiles([delete_file(**changes)]).of(data_file(), HERE)) is applies


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
    delete_files = DeleteFiles([delete_file(content=FileContent.EQUALITY_DELETES, **changes)])
    assert bool(delete_files.of(data_file(), HERE)) is applies


def test_the_refusal_names_table_snapshot_and_delete_file() -> None:
    error = DeleteFileInForceError.of("db.t", 7, delete_file(), "is added")
    assert (error.table, error.snapshot_id, error.path) == ("db.t", 7, "s3://b/d.parquet")
    assert "delete file s3://b/d.parquet is added at snapshot 7 of table db.t" in str(error)


def test_deletion_vectors_in_one_file_are_told_apart_by_their_place() -> None:
    one, other = delete_file(content_offset=4), delete_file(content_offset=90)
    assert one.identity != other.identity
