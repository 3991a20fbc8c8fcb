from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import LongType
from pyroaring import BitMap64

from iceberg.far_io import FAR, FarIO
from icefloe.errors import TerminalError
from icefloe.iceberg.data_file import DataFile, DeleteFile
from icefloe.iceberg.deletes.deleted_positions import DeletedPositions, read_position_deletes
from icefloe.iceberg.schemas.table_schema import TableSchema
from support.tables.written_deletes import (
    POSITION_DELETES,
    write_deletion_vector,
    write_equality_deletes,
    write_position_deletes,
)
from support.tables.written_tables import column, optional, reader, with_id, write_file

SCHEMAS = {(1,): TableSchema.of(Schema(optional("id", LongType())))}


def data_file(folder: Path, name: str, rows: int) -> DataFile:
    return write_file(folder / name, column("id", pa.array(range(rows), pa.int64())))


def deleted(delete_files: list[DeleteFile], *data_files: DataFile, **options: Any) -> DeletedPositions:
    files = reader(options.get("io"))
    return DeletedPositions(
        delete_files, equality_schemas=SCHEMAS, reader=files, data_files=data_files, memory_bytes=1 << 20
    )


def test_each_delete_file_is_resolved_by_its_kind_and_only_those_asked_for(tmp_path: Path) -> None:
    one, two = data_file(tmp_path, "one", 5), data_file(tmp_path, "two", 9)
    positions = deleted(
        [
            write_position_deletes(tmp_path / "positions", [(one.path, 1), (two.path, 2), (two.path, 8)]),
            write_deletion_vector(tmp_path / "vector", BitMap64([3, 4]), data_file=one.path),
            write_equality_deletes(tmp_path / "keys", column("id", pa.array([4, 7, 99])), [1]),
        ],
        one,
        two,
    )
    assert positions.of(one, [0, 1, 2]) == {0: BitMap64([1]), 1: BitMap64([3, 4]), 2: BitMap64([4])}
    assert positions.of(two, [2, 0]) == {0: BitMap64([2, 8]), 2: BitMap64([4, 7])}
    assert positions.of(one, []) == {}


def test_positions_after_the_end_of_the_data_file_are_dropped(tmp_path: Path) -> None:
    file = data_file(tmp_path, "one", 5)
    positions = deleted(
        [
            write_position_deletes(tmp_path / "positions", [(file.path, 4), (file.path, 5), (file.path, 2**40)]),
            write_deletion_vector(tmp_path / "vector", BitMap64([0, 5]), data_file=file.path),
        ],
        file,
    )
    assert positions.of(file, [0, 1]) == {0: BitMap64([4]), 1: BitMap64([0])}


def test_a_position_delete_file_is_read_once_for_all_data_files_of_the_task(tmp_path: Path) -> None:
    io = FarIO()
    files = [data_file(tmp_path, f"data-{number}", 3) for number in range(4)]
    shared = write_position_deletes(tmp_path / "positions", [(file.path, 1) for file in files])
    positions = deleted([shared], *files, io=io)
    assert not io.opened
    assert [positions.of(file, [0]) for file in files] == [{0: BitMap64([1])}] * 4
    assert dict(io.opened) == {"positions": 1}


def test_the_delete_files_of_a_data_file_are_read_at_once_where_storage_is_far(tmp_path: Path) -> None:
    file = data_file(tmp_path, "data", 9)
    written = [
        *(write_position_deletes(tmp_path / f"positions-{number}", [(file.path, number)]) for number in range(2)),
        write_deletion_vector(tmp_path / "vector", BitMap64([2]), data_file=file.path),
    ]
    io = FarIO(at_once=3)
    positions = deleted([replace(each, path=FAR + each.path) for each in written], file, io=io)
    assert positions.of(file, range(3)) == {number: BitMap64([number]) for number in range(3)}
    assert len(io.opened) == 3


ROWS = [("s3://b/1", 3), ("s3://b/1", 5), ("s3://b/2", 0), ("s3://b/3", 2**40)]


def read(delete_file: DeleteFile, *data_files: str) -> dict[str, BitMap64]:
    return read_position_deletes(delete_file, reader(), data_files=data_files)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("position_deletes")


@settings(deadline=None)
@given(
    rows=st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 9)), max_size=60),
    asked=st.sets(st.sampled_from("abcdxyz")),
    use_dictionary=st.booleans(),
    row_group_size=st.sampled_from([1, 7, 1000]),
)
def test_rows_may_come_in_any_order_and_repeatedly(
    folder: Path, rows: list[tuple[str, int]], asked: set[str], use_dictionary: bool, row_group_size: int
) -> None:
    path = folder / "d.parquet"
    written = write_position_deletes(path, rows, use_dictionary=use_dictionary, row_group_size=row_group_size)
    expected: dict[str, BitMap64] = {}
    for name, position in rows:
        if name in asked:
            expected.setdefault(name, BitMap64()).add(position)
    assert read(written, *asked) == expected


def test_copies_of_the_deleted_rows_are_not_read(tmp_path: Path) -> None:
    row = with_id(2147483544, pa.field("row", pa.struct([with_id(1, pa.field("anything", pa.duration("s")))])))
    written = write_position_deletes(tmp_path / "d.parquet", ROWS, schema=POSITION_DELETES.append(row))
    assert read(written, "s3://b/1") == {"s3://b/1": BitMap64([3, 5])}


def test_columns_without_field_ids_are_known_by_their_names(tmp_path: Path) -> None:
    schema = pa.schema([("pos", pa.int64()), ("file_path", pa.large_string())])
    turned: list[Any] = [(position, path) for path, position in ROWS]
    written = write_position_deletes(tmp_path / "d.parquet", turned, schema=schema)
    assert read(written, "s3://b/2") == {"s3://b/2": BitMap64([0])}


@pytest.mark.parametrize(
    ("row", "what"),
    [
        (("s3://b/1", -1), "it deletes the position -1"),
        (("s3://b/1", None), "rows without a data file or without a position"),
        ((None, 1), "rows without a data file or without a position"),
    ],
    ids=str,
)
def test_a_row_that_names_no_position_is_damage(tmp_path: Path, row: tuple[str | None, int | None], what: str) -> None:
    schema = pa.schema([field.with_nullable(True) for field in POSITION_DELETES])
    written = write_position_deletes(tmp_path / "d.parquet", [*ROWS, row], schema=schema)
    with pytest.raises(TerminalError, match=what) as refused:
        read(written, "s3://b/2")
    assert f"delete file {written.path} of table db.t is damaged" in str(refused.value)
