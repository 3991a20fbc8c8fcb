"""The key of a row on the command line, and the filter that finds the row."""

import math
from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimeType,
    UUIDType,
)

from icefloe.cli.trace import RowKey
from icefloe.errors import UsageError
from icefloe.iceberg.filters.row_filter import RowFilter
from icefloe.iceberg.schemas.table_schema import TableSchema

IDS: Final = ("f79c3e09-677c-4bbd-a479-3f349cb785e7", "f79c3e09-677c-4bbd-a479-3f349cb785e8")
STORED: Final = tuple(UUID(text).bytes for text in IDS)
LONG: Final = LongType()


def schema_of(kind: IcebergType, name: str = "id") -> TableSchema:
    return TableSchema.of(Schema(NestedField(1, name, kind), NestedField(2, "other", StringType())))


def rows(schema: TableSchema, values: Sequence[Any]) -> pa.RecordBatch:
    key = schema.arrow.field(0).type
    column = pa.array(values, getattr(key, "storage_type", key), from_pandas=False)
    if isinstance(key, pa.BaseExtensionType):
        column = pa.ExtensionArray.from_storage(key, column)
    return pa.RecordBatch.from_arrays([column, pa.nulls(len(values), pa.large_string())], schema=schema.arrow)


def found_by(key: RowKey, schema: TableSchema, batch: pa.RecordBatch) -> list[bool]:
    """The rows that the filter of a key lets pass, if these are the rows of the key."""
    mask = RowFilter.parse(key.filter, schema.columns, table="db.events").mask(batch)
    # By their texts, because NaN does not equal NaN.
    assert str(key.rows_in(batch).to_pylist()) == str(batch.filter(pa.array(mask)).to_pylist())
    return mask.tolist()


@pytest.mark.parametrize(
    ("kind", "text", "value", "other"),
    [
        (UUIDType(), IDS[0], STORED[0], STORED[1]),
        (TimeType(), "03:04:05.000006", time(3, 4, 5, 6), time(3, 4, 5)),
        (DateType(), "2024-02-29", date(2024, 2, 29), date(2024, 3, 1)),
        (TimestampType(), "2024-02-29 03:04:05", datetime(2024, 2, 29, 3, 4, 5), datetime(2024, 2, 29)),
        (DoubleType(), "1e16", 1e16, 1.0),
        (DoubleType(), "5e-324", 5e-324, 0.0),
        (DoubleType(), "-0.25", -0.25, 0.25),
        (DoubleType(), "-inf", -math.inf, 0.0),
        (FloatType(), "0.1", 0.1, 0.2),
        (FloatType(), "1e-40", 1e-40, 0.0),
        (DecimalType(38, 10), "0.0000000001", Decimal("0.0000000001"), Decimal(0)),
        (BooleanType(), "true", True, False),
        (StringType(), "it's", "it's", "it"),
        (StringType(), "a\\b", "a\\b", "ab"),
        (LONG, "-4", -4, 4),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_value_finds_its_row_and_no_other(kind: IcebergType, text: str, value: object, other: object) -> None:
    schema = schema_of(kind)
    key = RowKey.parse([f"id={text}"], schema, ["id"])
    assert found_by(key, schema, rows(schema, [value, other, None])) == [True, False, False]


@pytest.mark.parametrize("name", ["order-id", "order id", "2id", "not", "é", 'a"b', "a'b", " a ", "a.b", "a..b", "a=b"])
def test_a_column_of_any_name_can_be_a_key(name: str) -> None:
    schema = schema_of(LONG, name)
    for written in ([f"{name}=4"], f"{name}=4".split(" ")):
        key = RowKey.parse(written, schema, [name])
        assert (key.texts, found_by(key, schema, rows(schema, [4, 5]))) == ({name: "4"}, [True, False])


def test_parts_of_the_name_of_a_nested_column_are_quoted_one_by_one() -> None:
    place = StructType(NestedField(2, "order-id", LongType()))
    schema = TableSchema.of(Schema(NestedField(1, "my place", place), NestedField(3, "id", LongType())))
    key = RowKey.parse(["id=1", "my place.order-id=4"], schema, ["id", "my place.order-id"])
    batch = pa.RecordBatch.from_pylist(
        [{"my place": {"order-id": number}, "id": 1} for number in (4, 5)], schema=schema.arrow
    )
    assert found_by(key, schema, batch) == [True, False]


@pytest.mark.parametrize(
    ("kind", "text", "name"),
    [
        (BinaryType(), "ab", "id"),
        (FixedType(2), "ab", "id"),
        (TimestampNanoType(), "2024-02-29T03:04:05.000000001", "id"),
        (StringType(), "a\\", "id"),
        (StringType(), "a\tb", "id"),
        (DoubleType(), "nan", "id"),
        (LONG, "4", "a\\b"),
    ],
    ids=repr,
)
def test_a_key_that_no_filter_can_hold_is_refused_as_one_of_trace(kind: IcebergType, text: str, name: str) -> None:
    with pytest.raises(
        UsageError, match=r"^trace cannot take '.+' of type .+: look for the row in the sink$"
    ) as caught:
        RowKey.parse([f"{name}={text}"], schema_of(kind, name), [name])
    assert caught.value.key is None


def test_a_name_that_a_filter_reads_as_another_is_not_looked_for_in_that_column() -> None:
    schema = TableSchema.of(Schema(NestedField(1, "a\\b", LongType()), NestedField(2, 'a"b', LongType())))
    with pytest.raises(UsageError, match="trace cannot take"):
        RowKey.parse(["a\\b=4"], schema, ["a\\b"])


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (UUIDType(), "f79c3e09"),
        (TimeType(), "3 o'clock"),
        (TimeType(), "03:04:05+01:00"),
        (TimeType(), "03:04:05.0000001"),
    ],
    ids=str,
)
def test_a_text_that_is_no_value_is_named_with_the_type(kind: IcebergType, text: str) -> None:
    with pytest.raises(UsageError, match=f"is no value of the type {kind}"):
        RowKey.parse([f"id={text}"], schema_of(kind), ["id"])
