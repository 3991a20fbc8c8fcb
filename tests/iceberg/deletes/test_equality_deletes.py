from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
)
from pyroaring import BitMap64

from iceberg.far_io import FarIO
from icefloe.iceberg.data_file import DataFile, DeleteFile
from icefloe.iceberg.deletes.equality_deletes import EqualityDeletes, equality_schema, key_hashes
from icefloe.iceberg.schemas.table_schema import TableSchema
from support.tables.written_deletes import write_equality_deletes
from support.tables.written_tables import create_table, optional, reader, with_id, write_file

ID = with_id(1, pa.field("id", pa.int64()))
NAME = with_id(2, pa.field("name", pa.string()))
COLUMNS = (optional("id", LongType(), 1), optional("name", StringType(), 2))
Rows = Sequence[tuple[Any, ...]]


def arrow(rows: Rows, *fields: pa.Field) -> pa.Table:
    columns = [[row[place] for row in rows] for place in range(len(fields))]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, fields, strict=True)]
    return pa.table(arrays, schema=pa.schema(fields))


def data(folder: Path, rows: Rows, *fields: pa.Field, **options: Any) -> DataFile:
    return write_file(folder / "data.parquet", arrow(rows, *(fields or (ID, NAME))), **options)


def deletes(folder: Path, number: int, keys: Rows, *fields: pa.Field) -> DeleteFile:
    ids = [int(field.metadata[b"PARQUET:field_id"]) for field in fields]
    return write_equality_deletes(folder / f"deletes-{number}.parquet", arrow(keys, *fields), ids)


def schemas(*field_ids: tuple[int, ...], columns: Sequence[NestedField] = COLUMNS) -> dict[tuple[int, ...], Any]:
    return {ids: TableSchema.of(Schema(*(column for column in columns if column.field_id in ids))) for ids in field_ids}


def equality(
    delete_files: Mapping[int, DeleteFile], by_ids: Mapping[tuple[int, ...], TableSchema], **options: Any
) -> EqualityDeletes:
    files = reader(options.pop("io", None))
    return EqualityDeletes(delete_files, schemas=by_ids, reader=files, **{"memory_bytes": 1 << 20} | options)


def positions(found: Mapping[int, BitMap64]) -> dict[int, list[int]]:
    return {delete_id: list(bitmap) for delete_id, bitmap in found.items()}


def test_each_delete_file_deletes_the_rows_that_have_its_keys_nulls_too(tmp_path: Path) -> None:
    file = data(tmp_path, [(1, "a"), (2, None), (None, "a"), (1, "b"), (None, None)])
    delete_files = {
        3: deletes(tmp_path, 3, [(1,), (7,)], ID),
        5: deletes(tmp_path, 5, [(None,), (None,)], ID),
        6: deletes(tmp_path, 6, [(1, "b"), (None, None), (2, "a")], ID, NAME),
        8: deletes(tmp_path, 8, [("a",)], NAME),
    }
    reader = equality(delete_files, schemas((1,), (1, 2), (2,)))
    assert positions(reader.of(file, [3, 5, 6, 8])) == {3: [0, 3], 5: [2, 4], 6: [3, 4], 8: [0, 2]}
    assert positions(reader.of(file, [8, 3])) == {8: [0, 2], 3: [0, 3]}
    assert positions(reader.of(file, [])) == {}


def test_a_key_may_have_a_dropped_column_and_the_one_that_has_its_name_now(tmp_path: Path) -> None:
    """A file lacks one of them, which is null there; the delete file has two columns of one name."""
    table = create_table(tmp_path, Schema(*COLUMNS))
    with table.update_schema() as update:
        update.delete_column("name")
    with table.update_schema() as update:
        update.add_column("name", LongType())
    again = table.schema().find_field("name").field_id
    new = with_id(again, pa.field("name", pa.int64()))
    # The plan hands the schema to a map task as JSON.
    found = TableSchema.from_json(equality_schema(table.metadata, (2, again), []).schema_json, name_mapping=None)
    for folder in (tmp_path / "old", tmp_path / "new"):
        folder.mkdir()
    before = data(tmp_path / "old", [(1, "a"), (2, "b"), (3, None)])
    after = data(tmp_path / "new", [(1, 7), (2, 8), (3, None)], ID, new)
    delete_files = {
        0: deletes(tmp_path, 0, [("a", None), ("b", 8), (None, 7)], NAME, new),
        1: deletes(tmp_path, 1, [(None, None)], NAME, new),
    }
    reader = equality(delete_files, {(2, again): found})
    assert positions(reader.of(before, [0, 1])) == {0: [0], 1: [2]}
    assert positions(reader.of(after, [0, 1])) == {0: [0], 1: [2]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("equality_deletes")


KEYS = st.tuples(st.none() | st.integers(0, 4), st.none() | st.sampled_from(["x", "y", "long enough to be hashed"]))


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(
    rows=st.lists(KEYS, max_size=30),
    keys=st.lists(st.lists(KEYS, max_size=6), min_size=1, max_size=5),
    memory_bytes=st.sampled_from([1, 64, 128, 1 << 20]),
)
def test_the_same_rows_are_deleted_whatever_fits_into_memory(
    folder: Path, rows: Rows, keys: list[Rows], memory_bytes: int
) -> None:
    file = data(folder, rows, row_group_size=7)
    delete_files = {number: deletes(folder, number, each, ID, NAME) for number, each in enumerate(keys)}
    reader = equality(delete_files, schemas((1, 2)), memory_bytes=memory_bytes)
    deleted = {number: [place for place, row in enumerate(rows) if row in each] for number, each in enumerate(keys)}
    expected = {number: places for number, places in deleted.items() if places}
    for _ in range(2):
        assert positions(reader.of(file, list(delete_files))) == expected


def test_rows_of_every_batch_of_a_file_are_found(tmp_path: Path) -> None:
    ids, keys = pa.array(range(300_000), pa.int64()), pa.array(range(0, 600_000, 2), pa.int64())
    file = write_file(tmp_path / "data", pa.table([ids], schema=pa.schema([ID])), row_group_size=70_000)
    delete_file = write_equality_deletes(tmp_path / "keys", pa.table([keys], schema=pa.schema([ID])), [1])
    for memory_bytes in (1 << 26, 1 << 22):
        reader = equality({0: delete_file}, schemas((1,)), memory_bytes=memory_bytes)
        assert reader.of(file, [0]) == {0: BitMap64(range(0, 300_000, 2))}


def test_each_file_is_read_once_for_all_delete_files_with_the_same_columns(tmp_path: Path) -> None:
    io = FarIO()
    file = data(tmp_path, [(number, None) for number in range(50)])
    delete_files = {number: deletes(tmp_path, number, [(number,)], ID) for number in range(20)}
    reader = equality(delete_files, schemas((1,)), io=io)
    found = reader.of(file, list(delete_files))
    assert positions(found) == {number: [number] for number in range(20)}
    assert set(io.opened.values()) == {1}
    reader.of(file, [4])
    assert io.opened == Counter({f"deletes-{number}.parquet": 1 for number in range(20)} | {"data.parquet": 2})


def test_keys_that_do_not_fit_are_read_again_and_those_in_memory_are_used_first(tmp_path: Path) -> None:
    io = FarIO()
    file = data(tmp_path, [(number, None) for number in range(9)])
    delete_files = {number: deletes(tmp_path, number, [(number,), (-1,)], ID) for number in range(3)}
    reader = equality(delete_files, schemas((1,)), io=io, memory_bytes=2 * 32)
    for times in (1, 2):
        assert positions(reader.of(file, [0, 1, 2])) == {0: [0], 1: [1], 2: [2]}
        assert io.opened["data.parquet"] == 3 * times
    assert sum(io.opened.values()) - io.opened["data.parquet"] == 5


@pytest.mark.parametrize(
    ("wide", "narrow", "kind", "value"),
    [
        (pa.int64(), pa.int32(), LongType(), 7),
        (pa.float64(), pa.float32(), DoubleType(), 0.5),
        (pa.decimal128(20, 2), pa.decimal128(9, 2), DecimalType(20, 2), "1.25"),
        (pa.timestamp("us"), pa.date32(), TimestampType(), 3),
    ],
    ids=str,
)
def test_keys_and_rows_written_before_and_after_a_promotion_meet(
    tmp_path: Path, wide: pa.DataType, narrow: pa.DataType, kind: Any, value: Any
) -> None:
    small = pa.scalar(value, pa.string()).cast(narrow) if isinstance(value, str) else pa.scalar(value, narrow)
    by_ids = schemas((1,), columns=[optional("id", kind, 1)])
    for number, (of_data, of_keys) in enumerate([(wide, narrow), (narrow, wide), (narrow, narrow)]):
        one, two = (with_id(1, pa.field("id", each)) for each in (of_data, of_keys))
        file = data(tmp_path, [(None,), (small.cast(of_data),)], one)
        delete_files = {0: deletes(tmp_path, number, [(small.cast(of_keys),)], two)}
        assert positions(equality(delete_files, by_ids).of(file, [0])) == {0: [1]}


def test_a_column_that_a_file_lacks_is_its_default_its_partitions_value_or_null(tmp_path: Path) -> None:
    extra = with_id(2, pa.field("extra", pa.int32()))
    file = data(tmp_path, [(1,), (2,)], ID)
    null, five = deletes(tmp_path, 0, [(None,)], extra), deletes(tmp_path, 1, [(5,)], extra)

    def deleted(data_file: DataFile, **default: Any) -> dict[int, list[int]]:
        by_ids = schemas((2,), columns=[optional("extra", IntegerType(), 2, **default)])
        return positions(equality({0: null, 1: five}, by_ids).of(data_file, [0, 1]))

    facts = {name: getattr(file, name) for name in ("path", "file_format", "spec_id", "record_count")}
    assert deleted(file) == {0: [0, 1]}
    assert deleted(file, initial_default=5) == {1: [0, 1]}
    assert deleted(DataFile(**facts, file_size_bytes=1, constants={"2": 5})) == {1: [0, 1]}


def test_keys_inside_structs_are_compared_without_their_neighbours(tmp_path: Path) -> None:
    lat, lon = (with_id(number, pa.field(name, pa.float64())) for number, name in ((4, "lat"), (5, "lon")))
    rows = [(None,), ({"lat": 1.0, "lon": 1.0},), ({"lat": None, "lon": 1.0},), ({"lat": 1.0, "lon": 2.0},)]
    file = data(tmp_path, rows, with_id(3, pa.field("place", pa.struct([lat, lon]))))
    key = with_id(3, pa.field("place", pa.struct([lat])))
    found = [
        write_equality_deletes(tmp_path / f"d{number}", arrow([(value,)], key), [4])
        for number, value in enumerate([None, {"lat": None}, {"lat": 1.0}])
    ]
    place = StructType(NestedField(4, "lat", DoubleType(), required=False))
    by_ids = {(4,): TableSchema.of(Schema(optional("place", place, 3)))}
    assert positions(equality(dict(enumerate(found)), by_ids).of(file, [0, 1, 2])) == {0: [0], 1: [2], 2: [1, 3]}


def classes_of(values: pa.Array) -> list[int]:
    """For each key the place of the first that is equal to it."""
    hashes = key_hashes(pa.record_batch([values], names=["key"]), 7)
    keys = [hashes[place] for place in range(len(hashes))]
    return [keys.index(key) for key in keys]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_floating_point_keys_are_equal_where_java_compares_them_so(kind: pa.DataType) -> None:
    other_nan = np.frombuffer(b"\x01\x00\x00\x00\x00\x00\xf8\xff", np.float64)[0]
    values = [0.0, -0.0, float("nan"), other_nan, None, 1.5, None, 1.5]
    assert classes_of(pa.array(values, pa.float64(), from_pandas=False).cast(kind)) == [0, 1, 2, 2, 4, 5, 4, 5]


def test_a_null_struct_is_not_a_struct_of_nulls() -> None:
    kind = pa.struct([("a", pa.int32()), ("x", pa.float64())])
    values = [None, {"a": None, "x": None}, None, {"a": 1, "x": -0.0}, {"a": 1, "x": 0.0}, {"a": 1, "x": 0.0}]
    assert classes_of(pa.array(values, kind)) == [0, 1, 0, 3, 4, 4]
    assert classes_of(pa.array([*values, *values], kind).slice(5, 4)) == [0, 1, 2, 1]
