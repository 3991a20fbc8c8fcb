"""Rows of an earlier schema get the columns of a later one by field id, also inside structs."""

import io
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import schema_to_pyarrow
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
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from iceberg.evolving_schemas import Evolution, evolutions, with_relaxed_file
from icefloe.iceberg.data_file import constant_to_json
from icefloe.iceberg.schemas.arrow_columns import arrow_schema, file_columns
from icefloe.iceberg.schemas.projection import (
    Projection,
    plan_kept_dictionary,
    plan_narrowing,
    plan_projection,
    plan_promotion,
)
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.iceberg.unreadable import ColumnError


def plan(file: pa.Schema, schema: Schema, constants: Mapping[str, Any] | None = None) -> Projection:
    return plan_projection(file_columns(file, None), schema, constants or {})


def project(batch: pa.RecordBatch, schema: Schema, constants: Mapping[str, Any] | None = None) -> pa.RecordBatch:
    everything = {position: position for position in range(batch.num_columns)}
    return plan(batch.schema, schema, constants).apply(batch, everything)


def through_parquet(batch: pa.RecordBatch) -> pa.RecordBatch:
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_batches([batch]), buffer)
    return pq.ParquetFile(buffer).read().combine_chunks().to_batches()[0]


@pytest.mark.slow
@given(evolutions(), st.booleans(), st.integers(0, 3))
@settings(max_examples=150, deadline=None)
def test_rows_of_any_file_come_out_as_the_later_schema_sees_them(evolution: Evolution, relax: bool, skip: int) -> None:
    if relax:
        evolution = with_relaxed_file(evolution)
    rows = pa.RecordBatch.from_pylist(evolution.rows, schema_to_pyarrow(evolution.before))
    for batch in (rows.slice(skip), through_parquet(rows) if rows.num_rows else rows):
        seen = project(batch, evolution.after)
        seen.validate(full=True)
        assert seen.schema.equals(arrow_schema(evolution.after), check_metadata=True)
        assert seen.to_pylist() == evolution.expected[rows.num_rows - batch.num_rows :]
        if seen.num_rows and seen.num_columns:
            again = seen.take(pa.array(range(seen.num_rows)))
            assert through_parquet(again).to_pylist() == seen.to_pylist()


def file_schema(*fields: NestedField) -> pa.Schema:
    return schema_to_pyarrow(Schema(*fields))


def one_row(row: Mapping[str, Any], *fields: NestedField) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([row], file_schema(*fields))


def struct(field_id: int, name: str, *fields: NestedField, required: bool = False) -> NestedField:
    return NestedField(field_id, name, StructType(*fields), required=required)


ID = NestedField(1, "id", LongType(), required=True)
NAME = NestedField(2, "name", StringType())


def test_arrays_that_need_not_change_are_not_copied() -> None:
    batch = pa.RecordBatch.from_pylist([{"id": 1, "name": "a"}, {"id": 2, "name": None}], file_schema(ID, NAME))
    seen = project(batch, Schema(NAME, ID))
    assert [buffer.address for buffer in seen["name"].buffers()] == [b.address for b in batch["name"].buffers()]
    assert seen["id"].buffers()[1].address == batch["id"].buffers()[1].address


LISTS = [pa.list_, pa.large_list, pa.list_view, pa.large_list_view, lambda element: pa.list_(element, 2)]


@pytest.mark.parametrize("layout", LISTS, ids=["list", "large", "view", "large view", "fixed size"])
def test_every_list_layout_becomes_the_tables_also_in_slices(layout: Any) -> None:
    ids = [{"PARQUET:field_id": str(number)} for number in (1, 2)]
    kind = layout(pa.field("element", pa.int32(), metadata=ids[1]))
    array = pa.array([[1, 2], None, [3, None], [4, 5]], kind)
    if layout in (pa.list_view, pa.large_list_view):
        # Views may overlap and have any order.
        offset = pa.int32() if layout is pa.list_view else pa.int64()
        places, sizes = pa.array([2, 0, 1], offset), pa.array([1, 2, 2], offset)
        array = type(array).from_arrays(places, sizes, pa.array([1, 2, 3], pa.int32()), kind)
    schema = Schema(NestedField(1, "c", ListType(2, LongType(), element_required=False)))
    batch = pa.RecordBatch.from_arrays([array], schema=pa.schema([pa.field("c", kind, metadata=ids[0])]))
    for part in (batch, batch.slice(1), batch.slice(2, 1), batch.slice(0, 0)):
        seen = project(part, schema)
        seen.validate(full=True)
        assert seen.to_pylist() == part.to_pylist()


DEFAULTS: list[tuple[IcebergType, Any]] = [
    (BooleanType(), False),
    (IntegerType(), 0),
    (LongType(), 2**40),
    (FloatType(), 1.5),
    (DoubleType(), -0.25),
    (DecimalType(9, 2), Decimal("-12.34")),
    (DateType(), date(2024, 2, 29)),
    (TimeType(), time(13, 14, 15, 16)),
    (TimestampType(), datetime(2024, 2, 29, 1, 2, 3, 4)),
    (TimestamptzType(), datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC)),
    (StringType(), ""),
    (UUIDType(), UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")),
    (FixedType(3), b"abc"),
    (BinaryType(), b""),
]


@pytest.mark.parametrize(("kind", "value"), DEFAULTS, ids=str)
def test_a_column_that_the_file_lacks_has_its_initial_default_or_the_constant_of_its_partition(
    kind: Any, value: Any
) -> None:
    added = NestedField(9, "added", kind, required=True, initial_default=value)
    stored = Schema.model_validate_json(Schema(ID, added).model_dump_json())
    assert project(one_row({"id": 1}, ID), stored).to_pylist() == [{"id": 1, "added": value}]
    constants = {"9": constant_to_json(kind, value)}
    seen = project(one_row({"id": 1}, ID), Schema(NestedField(9, "added", kind)), constants)
    assert seen.to_pylist() == [{"added": value}]


def test_constants_in_nanoseconds_and_defaults_of_promoted_dates_keep_their_time() -> None:
    nanos, day = TimestampNanoType(), date(2024, 2, 29)
    constants = {"9": constant_to_json(nanos, 1_500_000_000_123_456_789)}
    seen = project(one_row({"id": 1}, ID), Schema(NestedField(9, "added", nanos)), constants)
    assert seen["added"].view(pa.int64()).to_pylist() == [1_500_000_000_123_456_789]
    added = NestedField(9, "added", TimestampType(), required=True, initial_default=day)
    assert project(one_row({"id": 1}, ID), Schema(added)).to_pylist() == [{"added": datetime(2024, 2, 29)}]


def test_a_constant_outranks_a_default_and_a_column_in_the_file_outranks_both() -> None:
    name = NestedField(2, "name", StringType(), initial_default="default")
    assert project(one_row({"id": 1}, ID), Schema(name), {"2": "constant"}).to_pylist() == [{"name": "constant"}]
    assert project(one_row({"id": 1}, ID), Schema(name), {"2": None}).to_pylist() == [{"name": None}]
    assert project(one_row({"name": "own"}, NAME), Schema(name), {"2": "constant"}).to_pylist() == [{"name": "own"}]


def test_constants_and_defaults_fill_fields_inside_structs_too() -> None:
    batch = pa.RecordBatch.from_pylist(
        [{"s": {"a": 1}}, {"s": None}], file_schema(struct(1, "s", NestedField(2, "a", LongType())))
    )
    day = NestedField(3, "day", DateType(), initial_default=date(1970, 1, 1))
    for constants, value in (({"3": "2024-02-29"}, date(2024, 2, 29)), ({}, date(1970, 1, 1))):
        seen = project(batch, Schema(struct(1, "s", day)), constants)
        assert seen.to_pylist() == [{"s": {"day": value}}, {"s": None}]


def test_a_required_column_that_the_file_lacks_is_an_error_unless_it_has_a_default() -> None:
    required = struct(3, "s", NestedField(4, "x", LongType(), required=True))
    batch = one_row({"s": {"y": 1}}, struct(3, "s", NestedField(5, "y", LongType())))
    with pytest.raises(ColumnError, match=r"required column 's\.x' is missing and has no initial default"):
        plan(batch.schema, Schema(required))


def test_columns_without_any_field_id_are_an_error_that_names_the_property() -> None:
    with pytest.raises(ColumnError, match=r"no field ids, and no `schema\.name-mapping\.default`"):
        plan(pa.schema([("id", pa.int64())]), Schema(ID))


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (StringType(), LongType()),
        (DateType(), TimestamptzType()),
        (StructType(NestedField(2, "a", LongType())), LongType()),
        (LongType(), StructType(NestedField(2, "a", LongType()))),
        (ListType(2, LongType(), element_required=False), MapType(2, LongType(), 3, LongType())),
    ],
    ids=str,
)
def test_a_type_that_may_not_become_the_tables_is_an_error_that_names_column_and_types(found: Any, wanted: Any) -> None:
    with pytest.raises(ColumnError) as refused:
        plan(file_schema(NestedField(1, "c", found)), Schema(NestedField(1, "c", wanted)))
    sentence = refused.value.sentence
    assert sentence.startswith("column 'c' has type ")
    assert f"cannot become the table's {wanted}" in sentence


def outer(*, leaf_required: bool) -> NestedField:
    inner = struct(2, "inner", NestedField(3, "leaf", LongType(), required=leaf_required), required=True)
    return struct(1, "outer", inner)


def test_a_null_in_a_required_column_is_an_error_unless_a_parent_is_null_however_batches_are_cut() -> None:
    with pytest.raises(ColumnError, match="required column 'id' holds a null"):
        project(one_row({"id": None}, NestedField(1, "id", LongType())), Schema(ID))
    values = [{"inner": {"leaf": 7}}, {"inner": {"leaf": None}}, {"inner": {"leaf": 9}}, None]
    rows = [{"outer": value} for value in values]
    batch = through_parquet(pa.RecordBatch.from_pylist(rows, file_schema(outer(leaf_required=False))))
    assert batch["outer"].field(0).null_count == 0, "a required parent hides that its own parent is null"
    wanted = Schema(outer(leaf_required=True))
    for part in (batch, batch.slice(1), batch.slice(1, 1), batch.slice(0, 2)):
        with pytest.raises(ColumnError, match=r"required column 'outer\.inner\.leaf' holds a null"):
            project(part, wanted)
    for part in (batch.slice(0, 1), batch.slice(2), batch.slice(3)):
        assert through_parquet(project(part, wanted)).to_pylist() == part.to_pylist()


def test_only_the_columns_that_are_wanted_have_to_be_read() -> None:
    wanted = plan(file_schema(ID, NAME, NestedField(3, "x", LongType())), Schema(NestedField(3, "y", LongType()), ID))
    assert wanted.positions == {0, 2}


def test_a_column_with_uuids_inside_that_the_file_lacks_is_null() -> None:
    kinds = (
        ListType(3, UUIDType()),
        MapType(3, StringType(), 4, UUIDType()),
        StructType(NestedField(3, "u", UUIDType())),
    )
    for kind in kinds:
        found = project(one_row({"id": 7}, ID), Schema(ID, NestedField(2, "added", kind)))
        assert found.to_pylist() == [{"id": 7, "added": None}]


@pytest.mark.parametrize(
    ("array", "target"),
    [
        (pa.array([2**31 - 1, None, -(2**31)], pa.int64()), pa.int32()),
        (pa.array([1.5, None, float("inf"), -0.0]), pa.float32()),
        (pa.array([Decimal("9999999.99"), None], pa.decimal128(20, 2)), pa.decimal128(9, 2)),
        (pa.array([date(1960, 2, 29), None]).cast(pa.timestamp("us")), pa.date32()),
        (pa.nulls(2, pa.struct([("a", pa.int64())])), pa.null()),
    ],
    ids=str,
)
def test_values_that_fit_come_back_to_the_narrower_type(array: Any, target: pa.DataType) -> None:
    step = plan_narrowing(array.type, target, column="c")
    assert step is not None
    assert step(array).type == target
    assert step(array).cast(array.type).equals(array)


@pytest.mark.parametrize(
    ("array", "target"),
    [
        (pa.array([2**40]), pa.int32()),
        (pa.array([1e300]), pa.float32()),
        (pa.array([Decimal("10000000.00")], pa.decimal128(20, 2)), pa.decimal128(9, 2)),
        (pa.array([1, 86_400_000_000], pa.timestamp("us")), pa.date32()),
    ],
    ids=str,
)
def test_a_value_that_does_not_fit_is_an_error_that_names_the_column_and_the_way_out(
    array: Any, target: pa.DataType
) -> None:
    step = plan_narrowing(array.type, target, column="a.b")
    assert step is not None
    with pytest.raises(ColumnError, match=r"column 'a\.b' holds .* does not fit .* end the range at"):
        step(array)


KEY = UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
NOON = datetime(2024, 2, 29, 12, 30, 15, 123456)
MILLIS = NOON.replace(microsecond=123000)

ALLOWED = [
    (pa.array([1, None, -5], pa.int32()), pa.int64(), [1, None, -5]),
    (pa.array([1, 255], pa.uint8()), pa.int32(), [1, 255]),
    (pa.array([2**32 - 1], pa.uint32()), pa.int64(), [2**32 - 1]),
    (pa.array([1.5, None, -0.0], pa.float32()), pa.float64(), [1.5, None, -0.0]),
    (pa.array([0.5], pa.float16()), pa.float32(), [0.5]),
    (pa.array([Decimal("1.23"), None], pa.decimal128(9, 2)), pa.decimal128(18, 2), [Decimal("1.23"), None]),
    (pa.array([Decimal("-1.23")], pa.decimal32(9, 2)), pa.decimal128(9, 2), [Decimal("-1.23")]),
    (pa.array([Decimal("9" * 36 + ".99")], pa.decimal256(38, 2)), pa.decimal128(38, 2), [Decimal("9" * 36 + ".99")]),
    (pa.array([date(1969, 12, 31), None], pa.date32()), pa.timestamp("us"), [datetime(1969, 12, 31), None]),
    (pa.array([date(2024, 2, 29)], pa.date64()), pa.date32(), [date(2024, 2, 29)]),
    (pa.array([time(1, 2, 3)], pa.time32("ms")), pa.time64("us"), [time(1, 2, 3)]),
    (pa.array([1_999], pa.time64("ns")), pa.time64("us"), [time(0, 0, 0, 1)]),
    (pa.array([MILLIS], pa.timestamp("ms")), pa.timestamp("us"), [MILLIS]),
    (pa.array([NOON], pa.timestamp("us")), pa.timestamp("us", "UTC"), [NOON.replace(tzinfo=UTC)]),
    (pa.array([NOON], pa.timestamp("us", "UTC")), pa.timestamp("us"), [NOON]),
    (pa.array([NOON], pa.timestamp("us", "Europe/Berlin")), pa.timestamp("us", "UTC"), [NOON.replace(tzinfo=UTC)]),
    (pa.array([MILLIS], pa.timestamp("ms", "+05:30")), pa.timestamp("us", "UTC"), [MILLIS.replace(tzinfo=UTC)]),
    (pa.array([NOON], pa.timestamp("us", "Asia/Tokyo")), pa.timestamp("us"), [NOON]),
    (pa.array(["a", None, ""], pa.string()), pa.large_string(), ["a", None, ""]),
    (pa.array(["a", None], pa.string_view()), pa.large_string(), ["a", None]),
    (pa.array(["ä"]).dictionary_encode(), pa.large_string(), ["ä"]),
    (pa.array([b"\xc3\xa4"], pa.binary()), pa.large_string(), ["ä"]),
    (pa.array([b"\xff"], pa.binary_view()), pa.large_binary(), [b"\xff"]),
    (pa.array(["{}"], pa.json_()), pa.large_string(), ["{}"]),
    (pa.array([KEY.bytes, None], pa.binary(16)), pa.uuid(), [KEY, None]),
    (pa.array([KEY.bytes, None], pa.uuid()), pa.uuid(), [KEY, None]),
    (pa.array([KEY.bytes], pa.uuid()), pa.binary(16), [KEY.bytes]),
    (pa.nulls(2), pa.large_string(), [None, None]),
    (pa.array([7, None], pa.int32()).dictionary_encode(), pa.int64(), [7, None]),
    (pa.array([NOON], pa.timestamp("us", "Asia/Tokyo")).dictionary_encode(), pa.timestamp("us"), [NOON]),
]


@pytest.mark.parametrize(("array", "target", "expected"), ALLOWED, ids=str)
def test_values_keep_their_meaning_under_the_tables_type(array: Any, target: pa.DataType, expected: list[Any]) -> None:
    step = plan_promotion(array.type, target)
    assert step is not None
    promoted = step(array)
    assert promoted.type == target
    assert promoted.to_pylist() == expected
    assert step(pa.concat_arrays([array, array]).slice(1)).to_pylist() == (expected * 2)[1:]


@pytest.mark.parametrize(
    ("source", "target", "planned"),
    [
        *((source, target, plan_promotion) for source, target in (
            (pa.int64(), pa.int32()), (pa.float64(), pa.float32()), (pa.int32(), pa.float64()),
            (pa.bool_(), pa.int32()), (pa.string(), pa.int64()), (pa.decimal128(18, 2), pa.decimal128(9, 2)),
            (pa.decimal128(9, 2), pa.decimal128(9, 3)), (pa.date32(), pa.timestamp("us", "UTC")),
            (pa.timestamp("us"), pa.date32()), (pa.binary(8), pa.uuid()), (pa.binary(8), pa.binary(9)),
            (pa.duration("us"), pa.int64()), (pa.int64(), pa.timestamp("us")), (pa.json_(), pa.int64()),
            (pa.dictionary(pa.int32(), pa.string()), pa.int64()),
        )),
        *((source, target, partial(plan_narrowing, column="c")) for source, target in (
            (pa.int32(), pa.int64()), (pa.int64(), pa.int16()), (pa.float64(), pa.int32()),
            (pa.decimal128(20, 3), pa.decimal128(9, 2)), (pa.string(), pa.int32()),
        )),
        (pa.dictionary(pa.int32(), pa.int64()), pa.int64(), plan_kept_dictionary),
        (pa.string(), pa.large_string(), plan_kept_dictionary),
    ],
    ids=lambda value: str(value) if isinstance(value, pa.DataType) else getattr(value, "func", value).__name__,
)  # fmt: skip
def test_other_types_are_refused(source: pa.DataType, target: pa.DataType, planned: Any) -> None:
    assert planned(source, target) is None


@pytest.mark.parametrize(
    ("array", "target"),
    [
        (pa.array([2**63], pa.uint64()), pa.int64()),
        (pa.array([2**62], pa.timestamp("s")), pa.timestamp("us")),
        (pa.array([b"\xff"], pa.binary()), pa.large_string()),
        (pa.array([date(9999, 1, 1)], pa.date32()), pa.timestamp("ns")),
    ],
    ids=str,
)
def test_a_value_that_does_not_fit_is_an_error_not_another_value(array: Any, target: pa.DataType) -> None:
    step = plan_promotion(array.type, target)
    assert step is not None
    with pytest.raises(pa.ArrowInvalid):
        step(array)


def test_a_kept_dictionary_has_distinct_values_of_the_tables_type() -> None:
    array = pa.array(["a", None, "b", "a"]).dictionary_encode()
    step = plan_kept_dictionary(array.type, pa.large_string())
    assert step is not None
    kept = step(array)
    assert kept.type == pa.dictionary(pa.int32(), pa.large_string())
    assert kept.dictionary_decode().equals(array.cast(pa.large_string()))


def place(city: str, kind: IntegerType | LongType) -> TableSchema:
    inner = StructType(NestedField(3, city, StringType()), NestedField(4, "gate", kind))
    return TableSchema.of(Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, f"in_{city}", inner)))


def test_columns_and_fields_of_structs_keep_their_values_under_their_new_names() -> None:
    before, after = place("town", IntegerType()), place("city", LongType())
    rows = [{"id": 7, "in_town": {"town": "Oslo", "gate": 3}}, {"id": 8, "in_town": None}]
    found = after.rows_of(before, pa.RecordBatch.from_pylist(rows, before.arrow))
    assert found.schema.types == after.arrow.types
    assert found.to_pylist() == [{"id": 7, "in_city": {"city": "Oslo", "gate": 3}}, {"id": 8, "in_city": None}]


def test_a_null_of_a_column_that_became_required_later_is_kept() -> None:
    before = TableSchema.of(Schema(NestedField(1, "id", LongType())))
    gate = NestedField(2, "gate", LongType(), required=True)
    after = TableSchema.of(Schema(ID, gate))
    rows = pa.RecordBatch.from_pylist([{"id": None}], before.arrow)
    assert after.rows_of(before, rows).to_pylist() == [{"id": None, "gate": None}]
