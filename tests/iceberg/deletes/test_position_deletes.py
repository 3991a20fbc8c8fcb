from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from icefloe.errors import TerminalError
from icefloe.iceberg.catalog.file_io import FileGoneError
from icefloe.iceberg.data_file import DeleteFile
from icefloe.iceberg.deletes.deleted_positions import read_position_deletes
from support.tables.written_deletes import POSITION_DELETES, write_position_deletes
from support.tables.written_tables import local_io, with_id

ROWS = [("s3://b/1", 3), ("s3://b/1", 5), ("s3://b/2", 0), ("s3://b/3", 2**40)]


def read(delete_file: DeleteFile, *data_files: str) -> dict[str, BitMap64]:
    return read_position_deletes(delete_file, data_files=data_files, io=local_io(), table="db.t")


def test_positions_come_by_data_file_and_those_of_others_are_dropped(tmp_path: Path) -> None:
    written = write_position_deletes(tmp_path / "d.parquet", ROWS)
    found = read(written, "s3://b/3", "s3://b/1", "s3://b/none")
    assert found == {"s3://b/1": BitMap64([3, 5]), "s3://b/3": BitMap64([2**40])}


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


def test_files_of_many_batches_are_read_whole(tmp_path: Path) -> None:
    rows = [("s3://b/1", position) for position in range(0, 600_000, 3)]
    rows += [("s3://b/2", position) for position in range(100_000)]
    written = write_position_deletes(tmp_path / "d.parquet", rows)
    found = read(written, "s3://b/1", "s3://b/2")
    assert found == {"s3://b/1": BitMap64(range(0, 600_000, 3)), "s3://b/2": BitMap64(range(100_000))}


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


def test_a_file_without_positions_is_damage(tmp_path: Path) -> None:
    schema = pa.schema([POSITION_DELETES[0], with_id(1, pa.field("id", pa.int64()))])
    written = write_position_deletes(tmp_path / "d.parquet", ROWS, schema=schema)
    with pytest.raises(TerminalError, match="without a position"):
        read(written, "s3://b/1")


def test_a_file_with_another_number_of_rows_than_the_metadata_says_is_refused(tmp_path: Path) -> None:
    written = replace(write_position_deletes(tmp_path / "d.parquet", ROWS), record_count=3)
    with pytest.raises(TerminalError, match=r"delete file .*d.parquet of table db.t holds 4 rows, but .* says 3"):
        read(written, "s3://b/1")


def test_a_missing_file_is_gone(tmp_path: Path) -> None:
    written = write_position_deletes(tmp_path / "d.parquet", ROWS)
    Path(written.path).unlink()
    with pytest.raises(FileGoneError, match=r"delete file .*d.parquet of table db.t is gone"):
        read(written, "s3://b/1")


def test_a_cut_file_is_damaged(tmp_path: Path) -> None:
    written = write_position_deletes(tmp_path / "d.parquet", ROWS)
    Path(written.path).write_bytes(Path(written.path).read_bytes()[:-9])
    with pytest.raises(TerminalError, match=r"delete file .*d.parquet of table db.t cannot be decoded"):
        read(written, "s3://b/1")
