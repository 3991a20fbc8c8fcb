"""A kept projection is that of a file with the same columns, ids and constants, and of no other."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, StructType

from iceberg.far_io import FAR, FarIO
from icefloe.errors import NotBuiltError, TerminalError
from icefloe.iceberg.catalog.file_io import FileGoneError
from icefloe.iceberg.data_file import DataFile, RowGroups, constant_to_json
from icefloe.iceberg.files.opened_file import KeptProjections
from icefloe.iceberg.schemas.conversions import FilledField
from icefloe.iceberg.schemas.table_schema import TableSchema
from support.tables.written_tables import describe, optional, read_one, reader, with_id, write_file

ID = NestedField(1, "id", LongType(), required=True)
NAME = NestedField(2, "name", StringType())
ROWS = pa.table({"id": pa.array(range(1000)), "name": [None if n % 7 == 0 else f"name {n % 13}" for n in range(1000)]})


def flights(folder: Path, **options: Any) -> DataFile:
    fields = [
        pa.field("id", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "1"}),
        pa.field("name", pa.string(), metadata={"PARQUET:field_id": "2"}),
    ]
    return write_file(folder / "flights.parquet", ROWS.cast(pa.schema(fields)), **options)


def schema() -> TableSchema:
    return TableSchema.of(Schema(ID, NAME))


def test_rows_come_in_order_with_the_position_of_each_batch_in_the_file(tmp_path: Path) -> None:
    file = flights(tmp_path, row_group_size=300)
    read = list(reader(batch_rows=128).rows(file, schema()))
    assert [first for first, _ in read] == [0, 128, 256, 300, 428, 556, 600, 728, 856, 900]
    assert all(batch["id"][0].as_py() == first for first, batch in read)
    assert all(batch.schema.equals(schema().arrow, check_metadata=True) for _, batch in read)
    assert pa.Table.from_batches([batch for _, batch in read]).to_pylist() == ROWS.to_pylist()


@pytest.mark.parametrize("group", [1000, 100, 7])
@pytest.mark.parametrize(
    "positions", [[], [0], [999], [0, 1, 2], [5, 99, 100, 101, 500, 998], list(range(1000)), list(range(0, 1000, 3))]
)
def test_rows_at_positions_are_exactly_those(tmp_path: Path, group: int, positions: list[int]) -> None:
    file = flights(tmp_path, row_group_size=group)
    wanted = np.array(positions, np.int64)
    read = list(reader(batch_rows=64).rows_at(file, wanted, schema()))
    rows = pa.Table.from_batches(read, schema().arrow)
    assert rows.to_pylist() == ROWS.take(pa.array(wanted)).to_pylist()
    assert all(batch.num_rows for batch in read)


def test_row_groups_without_wanted_rows_are_not_decoded(tmp_path: Path) -> None:
    file = flights(tmp_path, row_group_size=250, compression="none", use_dictionary=False)
    footer = pq.read_metadata(file.path)
    chunk = footer.row_group(2).column(0)
    data = bytearray(Path(file.path).read_bytes())
    data[chunk.data_page_offset : chunk.data_page_offset + chunk.total_compressed_size] = (
        b"\xff" * chunk.total_compressed_size
    )
    Path(file.path).write_bytes(data)
    wanted = np.array([0, 260, 800], np.int64)
    rows = list(reader(batch_rows=100).rows_at(file, wanted, schema()))
    assert [row["id"] for batch in rows for row in batch.to_pylist()] == [0, 260, 800]
    with pytest.raises(TerminalError, match="cannot be decoded"):
        list(reader().rows(file, schema()))


def test_a_file_with_another_number_of_rows_than_the_metadata_says_is_refused(tmp_path: Path) -> None:
    file = describe(Path(flights(tmp_path).path), rows=999)
    sentence = rf"data file {file.path} of table db\.t holds 1000 rows, but the table's metadata says 999"
    with pytest.raises(TerminalError, match=sentence):
        read_one(file, ID, NAME)


def test_a_missing_file_is_gone_for_good(tmp_path: Path) -> None:
    file = flights(tmp_path)
    Path(file.path).unlink()
    with pytest.raises(FileGoneError, match=r"flights.parquet of table db.t is gone: its snapshot was expired"):
        read_one(file, ID, NAME)


@pytest.mark.parametrize("file_format", ["PUFFIN", "VORTEX"])
def test_formats_that_nobody_reads_are_refused(file_format: str) -> None:
    file = DataFile(path="/d/f", file_format=file_format, spec_id=0, record_count=1, file_size_bytes=1)
    with pytest.raises(NotBuiltError, match=f"data file /d/f of table db.t is {file_format}"):
        read_one(file, ID)


def flipped(file: DataFile) -> DataFile:
    """The file with one bit of a text changed, in a page that has a checksum."""
    chunk = pq.read_metadata(file.path).row_group(0).column(1)
    data = bytearray(Path(file.path).read_bytes())
    at = data.rindex(b"name 5", 0, chunk.dictionary_page_offset + chunk.total_compressed_size)
    data[at] ^= 1
    Path(file.path).write_bytes(data)
    return file


@pytest.mark.parametrize("dictionary_columns", [False, True])
@pytest.mark.parametrize("place", ["", FAR])
def test_a_bit_that_the_checksum_of_a_page_denies_is_damage(
    tmp_path: Path, place: str, dictionary_columns: bool
) -> None:
    file = flipped(flights(tmp_path, write_page_checksum=True, compression="none"))
    file = replace(file, path=place + file.path)
    said = r"flights.parquet of table db.t cannot be decoded: .*CRC checksum.*it is damaged"
    with pytest.raises(TerminalError, match=said):
        list(reader(FarIO()).rows(file, schema(), dictionary_columns=dictionary_columns))
    with pytest.raises(TerminalError, match=said):
        list(reader(FarIO()).rows_at(file, np.array([5]), schema(), dictionary_columns=dictionary_columns))


def test_dictionary_columns_stay_encoded_and_decode_to_the_same_rows(tmp_path: Path) -> None:
    file = flights(tmp_path, row_group_size=300)
    files = reader(batch_rows=128)
    plain = [batch for _, batch in files.rows(file, schema())]
    encoded = [batch for _, batch in files.rows(file, schema(), dictionary_columns=True)]
    assert encoded[0].schema.field("name").type == pa.dictionary(pa.int32(), pa.large_string())
    decoded = [schema().plain(batch) for batch in encoded]
    assert decoded == plain
    taken = encoded[1].take(pa.array([3, 5]))
    assert schema().plain(taken) == plain[1].take(pa.array([3, 5]))


def test_only_the_columns_of_the_schema_are_read(tmp_path: Path) -> None:
    file = flights(tmp_path)
    assert read_one(file, NAME).to_pylist() == ROWS.select(["name"]).to_pylist()
    added = optional("new", LongType(), 9)
    assert read_one(file, added).to_pylist() == [{"new": None}] * 1000


def row_groups(file: DataFile, first: int, stop: int) -> DataFile:
    """Row groups of 300 rows of a file."""
    rows = min(300 * stop, file.record_count) - 300 * first
    return replace(file, record_count=rows, row_groups=RowGroups(first=first, stop=stop, size_bytes=1))


@pytest.mark.parametrize(("first", "stop"), [(0, 1), (1, 3), (3, 4), (0, 4)])
def test_row_groups_are_read_as_a_file_of_their_own(tmp_path: Path, first: int, stop: int) -> None:
    part = row_groups(flights(tmp_path, row_group_size=300), first, stop)
    expected = ROWS.slice(300 * first, part.record_count)
    files = reader(batch_rows=128)
    read = list(files.rows(part, schema()))
    assert [batch["id"][0].as_py() - position for position, batch in read] == [300 * first] * len(read)
    assert pa.Table.from_batches([batch for _, batch in read]).to_pylist() == expected.to_pylist()
    [second] = files.rows_at(part, np.array([1]), schema())
    assert second.to_pylist() == expected.slice(1, 1).to_pylist()


def test_row_groups_that_are_not_there_are_refused(tmp_path: Path) -> None:
    part = row_groups(flights(tmp_path, row_group_size=300), 2, 4)
    rewritten = flights(tmp_path, row_group_size=500)
    assert rewritten.path == part.path
    with pytest.raises(TerminalError):
        list(reader().rows(part, schema()))


INNER = StructType(NestedField(3, "x", LongType()), NestedField(4, "y", LongType()))
COLUMNS = Schema(NestedField(1, "id", LongType()), NestedField(2, "at", INNER), NestedField(5, "place", StringType()))


def table_schema() -> TableSchema:
    return TableSchema.from_json(COLUMNS.model_dump(), name_mapping=None)


def file_schema(x: int = 3, y: int = 4) -> pa.Schema:
    inner = pa.struct([with_id(x, pa.field("x", pa.int64())), with_id(y, pa.field("y", pa.int64()))])
    return pa.schema([with_id(1, pa.field("id", pa.int64())), with_id(2, pa.field("at", inner))])


def test_a_kept_projection_is_that_of_a_file_with_the_same_schema_field_ids_and_constants() -> None:
    kept, schema = KeptProjections(), table_schema()

    def rows_of(file: pa.Schema, of: TableSchema, **constants: str) -> Any:
        _, projection = kept.of(file, of, {"5": constants["place"]}, keep_dictionaries=False)
        batch = pa.record_batch([pa.array([7]), pa.array([{"x": 1, "y": 2}], file.field("at").type)], schema=file)
        return projection.apply(batch, {0: 0, 1: 1}).to_pylist()

    for place in ("lab", "field"):
        assert rows_of(file_schema(), schema, place=place) == [{"id": 7, "at": {"x": 1, "y": 2}, "place": place}]
    assert rows_of(file_schema(x=4, y=3), schema, place="lab")[0]["at"] == {"x": 2, "y": 1}
    one, other = (kept.of(file_schema(), schema, {}, keep_dictionaries=False) for _ in range(2))
    assert one[1] is other[1]
    for _ in range(20):
        selected = table_schema().select(["id"])
        assert rows_of(file_schema(), selected, place="lab") == [{"id": 7}]


def test_the_constant_of_minus_zero_is_another_one_than_zero() -> None:
    kept = KeptProjections()
    schema = TableSchema.of(Schema(*COLUMNS.fields, NestedField(6, "share", DoubleType())))
    for share in (0.0, -0.0, 0.0):
        constants = {"6": constant_to_json(DoubleType(), share)}
        _, projection = kept.of(file_schema(), schema, constants, keep_dictionaries=False)
        [filled] = [
            field.value for field in projection.fields if isinstance(field, FilledField) and field.value.is_valid
        ]
        assert repr(filled.as_py()) == repr(share)
