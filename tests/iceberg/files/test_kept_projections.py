"""A kept projection is that of a file with the same columns, ids and constants, and of no other."""

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, StructType

from icefloe.iceberg.data_file import constant_to_json
from icefloe.iceberg.files.opened_file import KeptProjections
from icefloe.iceberg.schemas.conversions import FilledField
from icefloe.iceberg.schemas.table_schema import TableSchema
from support.tables.written_tables import with_id

INNER = StructType(NestedField(3, "x", LongType()), NestedField(4, "y", LongType()))
COLUMNS = Schema(NestedField(1, "id", LongType()), NestedField(2, "at", INNER), NestedField(5, "place", StringType()))


def table_schema() -> TableSchema:
    return TableSchema.from_json(COLUMNS.model_dump(), name_mapping=None)


def file_schema(x: int = 3, y: int = 4) -> pa.Schema:
    inner = pa.struct([with_id(x, pa.field("x", pa.int64())), with_id(y, pa.field("y", pa.int64()))])
    return pa.schema([with_id(1, pa.field("id", pa.int64())), with_id(2, pa.field("at", inner))])


def test_a_file_with_the_same_columns_has_the_projection_of_the_one_before() -> None:
    kept, schema = KeptProjections(), table_schema()
    first = kept.of(file_schema(), schema, {}, keep_dictionaries=False)
    again = kept.of(file_schema(), schema, {}, keep_dictionaries=False)
    assert again[1] is first[1]


@pytest.mark.parametrize("place", ["lab", "field"])
def test_a_constant_of_another_partition_is_not_kept(place: str) -> None:
    kept, schema = KeptProjections(), table_schema()
    kept.of(file_schema(), schema, {"5": "home"}, keep_dictionaries=False)
    _, projection = kept.of(file_schema(), schema, {"5": place}, keep_dictionaries=False)
    batch = pa.record_batch([pa.array([7]), pa.array([{"x": 1, "y": 2}], file_schema().field("at").type)], ["id", "at"])
    assert projection.apply(batch, {0: 0, 1: 1}).column("place").to_pylist() == [place]


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


def test_field_ids_inside_a_column_count() -> None:
    kept, schema = KeptProjections(), table_schema()
    kept.of(file_schema(), schema, {}, keep_dictionaries=False)
    _, projection = kept.of(file_schema(x=4, y=3), schema, {}, keep_dictionaries=False)
    batch = pa.record_batch([pa.array([7]), pa.array([{"x": 1, "y": 2}])], ["id", "at"])
    assert projection.apply(batch, {0: 0, 1: 1}).column("at").to_pylist() == [{"x": 2, "y": 1}]


def test_another_schema_has_its_own_projection() -> None:
    kept = KeptProjections()
    for _ in range(20):
        schema = table_schema()
        _, projection = kept.of(file_schema(), schema, {}, keep_dictionaries=False)
        assert projection.schema.names == ["id", "at", "place"]
        selected = schema.select(["id"])
        _, projection = kept.of(file_schema(), selected, {}, keep_dictionaries=False)
        assert projection.schema.names == ["id"]
