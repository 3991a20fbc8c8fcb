"""Every type of V1 to V3 that Iceberg's Java writers write, in every format, from the table to the sink's files."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from spark.moving_table import followed
from spark.range_check import changes_of, check_evolving_ranges
from support.spark.java_writers import JavaWriters
from support.spark.row_counts import difference, weights_of
from support.spark.spark_table import CreateTable, SparkTable

pytestmark = pytest.mark.spark

NS = 1_700_000_000_123_456_789
TYPES: Mapping[str, tuple[Any, Any]] = {
    "boolean": (True, False),
    "int": (-(2**31), 2**31 - 1),
    "long": (-(2**63), 2**63 - 1),
    "float": (0.1, float("nan")),
    "double": (0.1, -1e300),
    "date": (date(1, 1, 1), date(9999, 12, 31)),
    "time": (time(0, 0, 0, 1), time(23, 59, 59, 999_999)),
    "timestamp": (datetime(1960, 1, 1, 0, 0, 0, 123_456), datetime(2024, 2, 29, 12, 0, 0, 1)),
    "timestamptz": (datetime(1960, 1, 1, 0, 0, 0, 123_456, UTC), datetime(2024, 2, 29, 12, 0, 0, 1, UTC)),
    "timestamp_ns": (NS, -1_000_000_001),
    "timestamptz_ns": (NS, 1),
    "string": ("grüße\0", ""),
    "uuid": (UUID(int=7), UUID(int=2**128 - 1)),
    "fixed[3]": (b"abc", b"\0\xff\0"),
    "binary": (b"", b"\0\xff"),
    "decimal(9, 2)": (Decimal("1.25"), Decimal("-9999999.99")),
    "decimal(18, 4)": (Decimal("1.2500"), Decimal(-1)),
    "decimal(38, 10)": (Decimal("1234567890123456789012345678.0123456789"), Decimal("-0.0000000001")),
}
NAMES = {kind: f"c{place}" for place, kind in enumerate(TYPES)}
ARROW = {
    "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "date": pa.date32(), "time": pa.time64("us"), "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"), "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", "UTC"), "string": pa.large_string(), "uuid": pa.uuid(),
    "fixed[3]": pa.binary(3), "binary": pa.large_binary(), "decimal(9, 2)": pa.decimal128(9, 2),
    "decimal(18, 4)": pa.decimal128(18, 4), "decimal(38, 10)": pa.decimal128(38, 10),
}  # fmt: skip


def every_type(which: int | None) -> dict[str, Any]:
    """One of the two values of each type, by column; None: null."""
    return {NAMES[kind]: None if which is None else values[which] for kind, values in TYPES.items()}


def rows(low: int, high: int | None) -> list[dict[str, Any]]:
    one, other = every_type(low), every_type(high)
    return [
        {"id": 1, **one, "s": other, "l": [one, None, other], "m": [("x", one), ("y", None)]},
        {"id": 2, **every_type(None), "s": None, "l": None, "m": None},
        {"id": 3, **other, "s": every_type(None), "l": [], "m": []},
    ]


@pytest.fixture(params=["parquet", "orc"])
def typed(request: pytest.FixtureRequest, create_table: CreateTable) -> SparkTable:
    """A row changed in place, one in two columns, one added and one gone, with every type at every depth."""
    nested = "s struct<x: int>, l array<struct<x: int>>, m map<string, struct<x: int>>"
    table = create_table(f"id int, {nested}", format_version=3)
    java = JavaWriters(table)
    with java.schema() as update:
        for kind, name in NAMES.items():
            update.addColumn(name, java.type(kind))
            for parent in ("s", "l", "m"):
                update.addColumn(parent, name, java.type(kind))
    [first] = java.data_files(rows(0, 1), file_format=request.param)
    java.append([first])
    changed = [{**row, "id": row["id"] + (row["id"] == 3)} for row in rows(1, 0)]
    [second] = java.data_files([rows(0, 1)[2], *changed], file_format=request.param)
    java.overwrite(removed=[first], added=[second])
    return table


def test_every_type_is_read_as_iceberg_reads_it_and_reaches_the_files_of_the_sink(
    typed: SparkTable, tmp_path: Path
) -> None:
    check_evolving_ranges(typed, identifier_columns=["id"])
    found = changes_of(typed, identifier_columns=["id"])
    assert {kind: found.schema.field(name).type for kind, name in NAMES.items()} == ARROW
    inner = found.schema.field("l").type.value_type
    assert {kind: inner.field(name).type for kind, name in NAMES.items()} == ARROW
    delivered = deliver(typed, tmp_path)
    java, last = JavaWriters(typed), typed.snapshot_ids()[-1]
    assert weights_of(delivered) == difference(Counter(), java.rows_at(last))
    assert {kind: delivered.schema.field(name).type for kind, name in NAMES.items()} == ARROW


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_columns_of_unknown_type_are_null_at_every_depth(
    create_table: CreateTable, tmp_path: Path, file_format: str
) -> None:
    nested = "s struct<x: int>, l array<struct<x: int>>, m map<string, struct<x: int>>"
    table = create_table(f"id int, {nested}", format_version=3)
    java = JavaWriters(table)
    rows = [
        {"id": 1, "s": {"x": 1}, "l": [{"x": 1}, None], "m": [("k", {"x": None})]},
        {"id": 2, "s": None, "l": None, "m": None},
    ]
    [first] = java.data_files(rows, file_format=file_format)
    java.append([first])
    with java.schema() as update:
        update.addColumn("nothing", java.type("unknown"))
        for parent in ("s", "l", "m"):
            update.addColumn(parent, "nothing", java.type("unknown"))
    java.append(java.data_files([{"id": 3}], file_format=file_format, schema_id=0))
    expected = [
        {"id": 1, "s": {"x": 1, "nothing": None}, "l": [{"x": 1, "nothing": None}, None],
         "m": [("k", {"x": None, "nothing": None})], "nothing": None},
        {"id": 2, "s": None, "l": None, "m": None, "nothing": None},
        {"id": 3, "s": None, "l": None, "m": None, "nothing": None},
    ]  # fmt: skip
    found = changes_of(table)
    delivered = deliver(table, tmp_path)
    for changes, first_column in ((found, 4), (delivered, 5)):
        read = changes.select(changes.column_names[first_column:])
        assert sorted(read.to_pylist(), key=lambda row: row["id"]) == expected
        assert read.schema.field("nothing").type == pa.null()


def deliver(table: SparkTable, folder: Path) -> pa.Table:
    """The contents of a pipeline's sink after one batch."""
    workshop = followed(table, folder, initial_load="from_earliest")
    assert workshop.deliver() is not None
    return workshop.changes()
