"""Avro files as any writer may make them; tests/spark has those that Iceberg writes."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.types import IntegerType, ListType, LongType, MapType, StringType, StructType

from iceberg.far_io import FAR, FarIO
from icefloe.errors import TerminalError
from icefloe.iceberg.data_file import DataFile
from icefloe.iceberg.files.avro_file import AvroRows
from icefloe.iceberg.schemas.table_schema import TableSchema
from support.tables.avro_writing import CODECS, record, write_avro
from support.tables.written_tables import optional, reader

FLIGHTS = record(("id", "long", 1), ("name", ["null", "string"], 2))
ROWS = [(n, (0, None) if n % 7 == 0 else (1, f"name {n % 13}")) for n in range(1000)]
EXPECTED = [{"id": n, "name": value} for n, (_, value) in ROWS]
COLUMNS = Schema(optional("id", LongType()), optional("name", StringType(), 2))

KEY = b"k" * 16


def flights(folder: Path, **options: Any) -> DataFile:
    write_avro(folder / "f.avro", FLIGHTS, ROWS, **options)
    return describe(folder / "f.avro", len(ROWS))


def describe(path: Path, rows: int) -> DataFile:
    return DataFile(path=str(path), file_format="AVRO", spec_id=0, record_count=rows, file_size_bytes=1)


def read(file: DataFile, schema: TableSchema | None = None, **options: Any) -> list[tuple[int, pa.RecordBatch]]:
    return list(reader(**options).rows(file, schema or TableSchema.of(COLUMNS)))


def opened(folder: Path, schema: Any, *rows: Any) -> pa.RecordBatch:
    """The only batch of a file's own columns."""
    write_avro(folder / "f.avro", schema, rows)
    found = AvroRows.open(pa.OSFile(str(folder / "f.avro")), batch_rows=100)
    ((_, _, groups),) = found.group_runs()
    (batch,) = found.batches(groups, None)
    assert batch.schema.equals(found.schema, check_metadata=True)
    return batch


@pytest.mark.parametrize("codec", CODECS)
def test_rows_come_in_order_with_their_positions(tmp_path: Path, codec: str) -> None:
    found = read(flights(tmp_path, codec=codec), batch_rows=128)
    assert [first for first, _ in found] == [0, 128, 200, 328, 400, 528, 600, 728, 800, 928]
    assert all(batch["id"][0].as_py() == first for first, batch in found)
    assert all(batch.schema.equals(TableSchema.of(COLUMNS).arrow, check_metadata=True) for _, batch in found)
    assert pa.Table.from_batches([batch for _, batch in found]).to_pylist() == EXPECTED


def test_blocks_without_wanted_rows_are_not_decoded(tmp_path: Path) -> None:
    file = flights(tmp_path, codec="deflate")
    damaged = AvroRows.open(pa.OSFile(file.path), batch_rows=1).container.blocks[3]
    content = bytearray(Path(file.path).read_bytes())
    content[damaged.offset : damaged.offset + damaged.size_bytes] = b"\xff" * damaged.size_bytes
    Path(file.path).write_bytes(content)
    wanted, schema = np.array([0, 299, 400]), TableSchema.of(COLUMNS)
    found = list(reader(batch_rows=100).rows_at(file, wanted, schema))
    assert [row["id"] for batch in found for row in batch.to_pylist()] == [0, 299, 400]
    with pytest.raises(TerminalError, match=r"f\.avro of table db\.t cannot be decoded"):
        read(file)


def test_a_file_far_away_is_copied_before_it_is_read(tmp_path: Path) -> None:
    file = flights(tmp_path)
    far = list(reader(FarIO()).rows(replace(file, path=FAR + file.path), TableSchema.of(COLUMNS)))
    assert far == read(file)


def test_large_rows_come_a_few_at_a_time(tmp_path: Path) -> None:
    write_avro(tmp_path / "f.avro", FLIGHTS, [(n, (1, "x" * (3 << 20))) for n in range(9)], codec="zstandard")
    found = read(describe(tmp_path / "f.avro", 9))
    assert [(first, batch.num_rows) for first, batch in found] == [(0, 3), (3, 3), (6, 3)]


def test_only_the_columns_of_the_schema_are_handed_on(tmp_path: Path) -> None:
    inner = record(
        ("a", ["null", "int"], 11), ("b", {"type": "array", "items": "string", "element-id": 13}, 12), name="r"
    )
    schema = record(
        ("m", {"type": "map", "values": inner, "key-id": 21, "value-id": 22}, 1), ("n", "double", 2),
        ("l", {"type": "array", "items": ["string", "null"], "element-id": 23}, 3), ("last", "long", 4),
    )  # fmt: skip
    rows = [([("k", ((1, n), ["x", "y"]))], n / 2, [(0, "s"), (1, None)], n) for n in range(5)]
    write_avro(tmp_path / "f.avro", schema, rows)
    file = describe(tmp_path / "f.avro", 5)
    for columns in ([optional("last", LongType(), 4)], [optional("new", LongType(), 9)]):
        found = pa.Table.from_batches([b for _, b in read(file, TableSchema.of(Schema(*columns)))])
        assert found.to_pylist() == [{columns[0].name: n if columns[0].name == "last" else None} for n in range(5)]


@pytest.mark.parametrize(
    ("schema", "value", "kind", "expected"),
    [
        ("boolean", True, pa.bool_(), True),
        ("int", -(2**31), pa.int32(), -(2**31)),
        ("long", 2**63 - 1, pa.int64(), 2**63 - 1),
        ("float", 0.5, pa.float32(), 0.5),
        ("double", 0.1, pa.float64(), 0.1),
        ("bytes", b"\0\xff", pa.large_binary(), b"\0\xff"),
        ("string", "grüße", pa.large_string(), "grüße"),
        ("null", None, pa.null(), None),
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, 1, pa.large_string(), "B"),
        ({"type": "fixed", "name": "f", "size": 3}, b"abc", pa.binary(3), b"abc"),
        ({"type": "fixed", "name": "f", "size": 16, "logicalType": "uuid"}, b"k" * 16, pa.binary(16), KEY),
        ({"type": "string", "logicalType": "uuid"}, str(UUID(bytes=KEY)), pa.binary(16), KEY),
        (
            {"type": "fixed", "name": "f", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2},
            (-125).to_bytes(4, "big", signed=True), pa.decimal128(9, 2), Decimal("-1.25"),
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0},
            (10**38 - 1).to_bytes(16, "big", signed=True), pa.decimal128(38, 0), Decimal(10**38 - 1),
        ),
        ({"type": {"type": "long"}}, 7, pa.int64(), 7),
        ({"type": "long", "logicalType": "of another world"}, 7, pa.int64(), 7),
        ({"type": "map", "values": "int"}, [("a", 1), ("b", 2), ("c", 3)], None, [("a", 1), ("b", 2), ("c", 3)]),
        ({"type": "array", "items": "long"}, [1, 2, 3], None, [1, 2, 3]),
        (
            {"type": "array", "logicalType": "map", "items": record(("key", "long"), ("value", "string"), name="kv")},
            [(1, "a"), (2, "b")], None, [(1, "a"), (2, "b")],
        ),
    ],
    ids=str,
)  # fmt: skip
def test_every_type_has_its_values(
    tmp_path: Path, schema: Any, value: Any, kind: pa.DataType | None, expected: Any
) -> None:
    column = opened(tmp_path, record(("id", "int"), ("c", schema)), (7, value)).column("c")
    assert column.to_pylist() == [expected]
    assert kind in (None, column.type)
    for union, null in ((["null", schema], 0), ([schema, "null"], 1)):
        if schema != "null":
            optional_column = opened(tmp_path, record(("c", union)), ((null, None),), ((1 - null, value),)).column("c")
            assert optional_column.to_pylist() == [None, expected]


@pytest.mark.parametrize(
    ("logical", "plain", "kind"),
    [
        ("date", "int", pa.date32()),
        ("time-millis", "int", pa.time32("ms")),
        ("time-micros", "long", pa.time64("us")),
        ("timestamp-millis", "long", pa.timestamp("ms", "UTC")),
        ("timestamp-micros", "long", pa.timestamp("us", "UTC")),
        ("timestamp-nanos", "long", pa.timestamp("ns", "UTC")),
        ("local-timestamp-millis", "long", pa.timestamp("ms")),
        ("local-timestamp-micros", "long", pa.timestamp("us")),
        ("local-timestamp-nanos", "long", pa.timestamp("ns")),
    ],
)
def test_times_keep_every_digit(tmp_path: Path, logical: str, plain: str, kind: pa.DataType) -> None:
    column = opened(tmp_path, record(("c", {"type": plain, "logicalType": logical})), (12_345_678,), (0,)).column("c")
    assert column.type == kind
    assert column.view(pa.int32() if plain == "int" else pa.int64()).to_pylist() == [12_345_678, 0]


def test_a_named_type_is_known_where_it_is_used_again(tmp_path: Path) -> None:
    point = record(("x", "int"), name="Point")
    schema = {
        **record(("a", point), ("b", ["null", "Point"]), ("c", {"type": "array", "items": "geo.Point"})),
        "namespace": "geo",
    }
    schema["name"] = "geo.Row"
    found = opened(tmp_path, {**schema, "fields": schema["fields"][:2]}, ((1,), (1, (2,))))
    assert found.to_pylist() == [{"a": {"x": 1}, "b": {"x": 2}}]


def test_nested_nulls_stay_nulls(tmp_path: Path) -> None:
    point = [
        "null",
        record(("x", ["null", "int"]), ("tags", ["null", {"type": "array", "items": ["null", "string"]}]), name="p"),
    ]
    points = ["null", {"type": "array", "items": point}]
    rows = [
        ((0, None),),
        ((1, []),),
        ((1, [(0, None), (1, ((0, None), (0, None))), (1, ((1, 5), (1, [(0, None), (1, "t")])))]),),
    ]
    found = opened(tmp_path, record(("points", points)), *rows)
    assert found.to_pylist() == [
        {"points": None},
        {"points": []},
        {"points": [None, {"x": None, "tags": None}, {"x": 5, "tags": [None, "t"]}]},
    ]


def test_names_give_ids_at_every_level(tmp_path: Path) -> None:
    inner = record(("k", "string"), ("stray", "int"), name="r")
    schema = record(("l", {"type": "array", "items": inner}), ("m", {"type": "map", "values": "int"}))
    write_avro(tmp_path / "f.avro", schema, [([("a", 1)], [("x", 2)])])
    element = MappedField(field_id=10, names=["element"], fields=[MappedField(field_id=11, names=["k"])])
    entry = [MappedField(field_id=20, names=["key"]), MappedField(field_id=21, names=["value"])]
    mapping = NameMapping(
        [MappedField(field_id=1, names=["l"], fields=[element]), MappedField(field_id=2, names=["m"], fields=entry)]
    )
    columns = Schema(
        optional("map", MapType(20, StringType(), 21, LongType()), 2),
        optional(
            "list", ListType(10, StructType(optional("new", IntegerType(), 12), optional("key", StringType(), 11)))
        ),
    )
    ((_, batch),) = read(describe(tmp_path / "f.avro", 1), TableSchema.of(columns, mapping))
    assert batch.to_pylist() == [{"map": [("x", 2)], "list": [{"new": None, "key": "a"}]}]
    with pytest.raises(TerminalError, match="its columns have no field ids"):
        read(describe(tmp_path / "f.avro", 1), TableSchema.of(columns))


@pytest.mark.parametrize("size", [0, 3, 60, 300, 5000, -1])
def test_a_truncated_file_is_damaged_and_named(tmp_path: Path, size: int) -> None:
    file = flights(tmp_path)
    Path(file.path).write_bytes(Path(file.path).read_bytes()[:size])
    with pytest.raises(TerminalError, match=r"data file .*f\.avro of table db\.t cannot be decoded: .*damaged"):
        read(file)


@pytest.mark.parametrize("byte", [0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF])
def test_damaged_blocks_are_never_read_beyond_their_end(tmp_path: Path, byte: int) -> None:
    point = {"type": "array", "items": record(("x", "double"), ("s", "string"), name="p")}
    schema = record(
        ("id", "long", 1),
        ("name", ["null", "string"], 2),
        ("points", point, 3),
        ("u", {"type": "fixed", "name": "u", "size": 16}, 4),
    )
    rows = [(n, (1, "x" * n), [(0.5, "a")] * n, b"k" * 16) for n in range(20)]
    write_avro(tmp_path / "f.avro", schema, rows)
    block = AvroRows.open(pa.OSFile(str(tmp_path / "f.avro")), batch_rows=1).container.blocks[0]
    good = (tmp_path / "f.avro").read_bytes()
    refused = 0
    for at in range(block.offset, block.offset + block.size_bytes, 7):
        content = bytearray(good)
        content[at] = byte
        (tmp_path / "f.avro").write_bytes(content)
        try:
            read(describe(tmp_path / "f.avro", 20))
        except TerminalError:
            refused += 1
    assert refused


@pytest.mark.parametrize(
    "schema",
    [
        "string",
        {"type": "record", "name": "r"},
        record(("c", ["string", "int"])),
        record(("c", ["null", "int", "string"])),
        record(("c", "Unheard")),
        record(("c", record(("c", "table"), name="table"))),
        record(("c", {"logicalType": "date"})),
        record(("c", {"type": "bytes", "logicalType": "decimal", "precision": 60})),
        record(("c", "int"), ("c", "long")),
        record(("c", 7)),
    ],
    ids=str,
)
def test_schemas_that_iceberg_does_not_have_are_refused(tmp_path: Path, schema: Any) -> None:
    write_avro(tmp_path / "f.avro", schema, [])
    with pytest.raises(TerminalError, match=r"f\.avro of table db\.t cannot be decoded"):
        read(describe(tmp_path / "f.avro", 0))
