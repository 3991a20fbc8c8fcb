"""PyIceberg's own scan is the oracle here, wherever it is right (it reads a null list of structs as an empty one)."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from icefloe.iceberg.schemas.table_schema import TableSchema
from support.tables.written_tables import create_table, read_table

NESTED = StructType(
    NestedField(31, "count", IntegerType()),
    NestedField(32, "label", StringType(), required=True),
    NestedField(33, "inner", StructType(NestedField(34, "x", FloatType()))),
)
ALL_TYPES = Schema(
    NestedField(1, "boolean", BooleanType()),
    NestedField(2, "int", IntegerType()),
    NestedField(3, "long", LongType(), required=True),
    NestedField(4, "float", FloatType()),
    NestedField(5, "double", DoubleType()),
    NestedField(6, "decimal_9", DecimalType(9, 2)),
    NestedField(7, "decimal_18", DecimalType(18, 4)),
    NestedField(8, "decimal_38", DecimalType(38, 10)),
    NestedField(9, "date", DateType()),
    NestedField(10, "time", TimeType()),
    NestedField(11, "timestamp", TimestampType()),
    NestedField(12, "timestamptz", TimestamptzType()),
    NestedField(13, "string", StringType()),
    NestedField(14, "uuid", UUIDType()),
    NestedField(15, "fixed", FixedType(3)),
    NestedField(16, "binary", BinaryType()),
    NestedField(17, "struct", NESTED),
    NestedField(18, "list", ListType(181, LongType(), element_required=False)),
    NestedField(19, "map", MapType(191, StringType(), 192, DoubleType(), value_required=False)),
    NestedField(20, "lists", ListType(201, ListType(202, StringType(), element_required=False), element_required=True)),
    NestedField(21, "x.y", LongType()),
)
FULL: dict[str, Any] = {
    "boolean": True,
    "int": -(2**31),
    "long": 2**63 - 1,
    "float": 1.5,
    "double": -0.0,
    "decimal_9": Decimal("1234567.89"),
    "decimal_18": Decimal("-12345678901234.5678"),
    "decimal_38": Decimal("1234567890123456789012345678.0123456789"),
    "date": date(1582, 10, 4),
    "time": time(23, 59, 59, 999999),
    "timestamp": datetime(1969, 12, 31, 23, 59, 59, 999999),
    "timestamptz": datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    "string": "ä\U0001f9ca",
    "uuid": UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes,
    "fixed": b"\x00\x01\xff",
    "binary": b"\xff",
    "struct": {"count": 1, "label": "a", "inner": {"x": 0.5}},
    "list": [1, None, 3],
    "map": [("a", 1.0), ("b", None)],
    "lists": [["a", None], []],
    "x.y": 7,
}
EMPTY: dict[str, Any] = dict.fromkeys(FULL) | {"long": 0}
HOLLOW = FULL | {"struct": {"count": None, "label": "", "inner": None}, "list": [], "map": [], "lists": []}


def rows_of(table: Table, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, table.schema().as_arrow())


def paths(table: Table) -> list[str]:
    return [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]


def assert_read_as_pyiceberg_does(table: Table) -> None:
    scanned = table.scan().to_arrow()
    read = read_table(table)
    assert read.schema.equals(TableSchema.of(table.schema()).arrow, check_metadata=True)
    assert read.to_pylist() == scanned.to_pylist()
    read.validate(full=True)


@pytest.mark.parametrize("format_version", [1, 2])
def test_every_type_is_read(tmp_path: Path, format_version: int) -> None:
    table = create_table(tmp_path, ALL_TYPES, format_version=format_version)
    rows = [FULL, EMPTY, HOLLOW]
    table.append(rows_of(table, rows))
    assert_read_as_pyiceberg_does(table)
    expected = [row if row["uuid"] is None else row | {"uuid": UUID(bytes=row["uuid"])} for row in rows]
    assert read_table(table).to_pylist() == expected


def test_columns_are_renamed_moved_dropped_added_and_promoted(tmp_path: Path) -> None:
    table = create_table(tmp_path, ALL_TYPES)
    table.append(rows_of(table, [FULL, EMPTY, HOLLOW]))
    with table.update_schema() as update:
        update.rename_column("string", "text").move_first("string").delete_column("boolean")
        update.update_column("int", LongType()).update_column("float", DoubleType())
        update.update_column("decimal_9", DecimalType(30, 2)).update_column(("struct", "count"), LongType())
        update.add_column("added", StringType()).add_column(("struct", "extra"), DateType())
        update.rename_column(("struct", "inner"), "core").delete_column(("struct", "label"))
        update.move_after("map", "list").make_column_optional("long")
    with table.update_schema() as update:
        update.add_column("boolean", StringType()).add_column(("struct", "label"), LongType())
        update.update_column(("struct", "core", "x"), DoubleType())
    table.append(rows_of(table, [{"boolean": "new", "text": "t", "struct": {"count": 2**40, "label": 5}}]))
    assert_read_as_pyiceberg_does(table)
    assert set(read_table(table)["boolean"].to_pylist()) == {"new", None}


def test_a_partition_column_that_the_files_lack_comes_from_the_partition(tmp_path: Path) -> None:
    table = create_table(tmp_path, Schema(NestedField(1, "id", LongType()), NestedField(2, "day", DateType())))
    with table.update_spec() as update:
        update.add_field("day", IdentityTransform(), "day")
    rows: list[dict[str, Any]] = [
        {"id": 1, "day": date(2024, 2, 29)},
        {"id": 2, "day": None},
        {"id": 3, "day": date(1960, 1, 1)},
    ]
    for row in rows:
        table.append(rows_of(table, [row]))
    for path in paths(table):
        pq.write_table(pq.ParquetFile(path).read().drop_columns("day"), path)
    assert_read_as_pyiceberg_does(table)
    assert sorted(read_table(table).to_pylist(), key=lambda row: row["id"]) == rows


def test_added_files_without_field_ids_are_read_by_the_name_mapping(tmp_path: Path) -> None:
    inner = StructType(NestedField(11, "a", LongType()), NestedField(12, "b", StringType()))
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "name", StringType()),
        NestedField(3, "s", inner),
        NestedField(4, "l", ListType(41, IntegerType(), element_required=False)),
        NestedField(5, "m", MapType(51, StringType(), 52, LongType(), value_required=False)),
    )
    table = create_table(tmp_path, schema)
    rows: list[dict[str, Any]] = [
        {"m": [("k", 1)], "id": 1, "name": "a", "s": {"b": "x", "a": 1}, "l": [1, None]},
        {"m": None, "id": 2, "name": None, "s": None, "l": None},
    ]
    arrow = pa.schema(
        [
            ("m", pa.map_(pa.string(), pa.int64())),
            ("id", pa.int64()),
            ("name", pa.string()),
            ("s", pa.struct([("b", pa.string()), ("a", pa.int64())])),
            ("l", pa.list_(pa.int32())),
        ]
    )
    pq.write_table(pa.Table.from_pylist(rows, arrow), tmp_path / "added.parquet")
    table.add_files([str(tmp_path / "added.parquet")])
    with table.update_schema() as update:
        update.rename_column("name", "title").rename_column(("s", "a"), "c").add_column("later", StringType())
    table.append(rows_of(table, [{"id": 3, "title": "new", "s": {"c": 1, "b": "y"}, "l": [], "m": []}]))
    assert_read_as_pyiceberg_does(table)
