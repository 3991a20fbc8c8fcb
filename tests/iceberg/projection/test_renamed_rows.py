"""Rows of an earlier schema get the columns of a later one by field id, also inside structs."""

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, StructType

from icefloe.iceberg.schemas.projection import rows_in_schema
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.iceberg.unreadable import ColumnError


def place(city: str, kind: IntegerType | LongType) -> TableSchema:
    fields = [
        NestedField(3, city, StringType(), required=False),
        NestedField(4, "gate", kind, required=False),
    ]
    return TableSchema.of(
        Schema(
            NestedField(1, "id", LongType(), required=True),
            NestedField(2, f"in_{city}", StructType(*fields), required=False),
        )
    )


def rows_of(schema: TableSchema, *values: object) -> pa.RecordBatch:
    columns = [
        pa.array(column, field.type) for column, field in zip(zip(*values, strict=True), schema.arrow, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema.arrow)


def test_columns_and_fields_of_structs_keep_their_values_under_their_new_names() -> None:
    before, after = place("town", IntegerType()), place("city", LongType())
    found = rows_in_schema(rows_of(before, (7, {"town": "Oslo", "gate": 3}), (8, None)), before, after)
    assert found.schema.types == after.arrow.types
    assert found.to_pylist() == [{"id": 7, "in_city": {"city": "Oslo", "gate": 3}}, {"id": 8, "in_city": None}]


def test_a_value_that_the_table_can_no_longer_hold_is_refused() -> None:
    wide, narrow = place("town", LongType()), place("town", IntegerType())
    with pytest.raises((ColumnError, pa.ArrowInvalid)):
        rows_in_schema(rows_of(wide, (7, {"town": "Oslo", "gate": 2**40})), wide, narrow)


def test_a_null_of_a_column_that_became_required_later_is_kept() -> None:
    before = TableSchema.of(Schema(NestedField(1, "id", LongType(), required=False)))
    after = TableSchema.of(
        Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "gate", LongType(), required=True))
    )
    assert rows_in_schema(rows_of(before, (None,)), before, after).to_pylist() == [{"id": None, "gate": None}]
