"""Rows of an earlier schema get the columns of a later one by field id, also inside structs."""

import io
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
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
from icefloe.iceberg.schemas.arrow_types import arrow_schema
from icefloe.iceberg.schemas.file_columns import file_columns
from icefloe.iceberg.schemas.projection import (
    Projection,
    plan_kept_dictionary,
    plan_narrowing,
    plan_projection,
    plan_promotion,
    rows_in_schema,
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


def test_a_column_dropped_and_added_again_under_its_name_does_not_bring_old_values_back() -> None:
    again = NestedField(7, "name", StringType())
    assert project(one_row({"id": 1, "name": "old"}, ID, NAME), Schema(ID, again)).to_pylist() == [
        {"id": 1, "name": None}
    ]


def test_null_lists_and_maps_of_structs_stay_null() -> None:
    inner = StructType(NestedField(4, "x", LongType()))
    tags = NestedField(3, "tags", ListType(5, inner, element_required=False))
    by_key = NestedField(6, "by_key", MapType(7, StringType(), 8, inner, value_required=False))
    rows = [{"tags": None, "by_key": None}, {"tags": [], "by_key": []}, {"tags": [None], "by_key": [("k", None)]}]
    batch = pa.RecordBatch.from_pylist(rows, file_schema(tags, by_key))
    assert project(batch, Schema(tags, by_key)).to_pylist() == rows


def test_a_struct_without_any_wanted_field_in_the_file_keeps_its_nulls() -> None:
    before = struct(1, "s", NestedField(2, "gone", LongType()))
    after = struct(1, "s", NestedField(3, "added", LongType(), initial_default=7))
    batch = pa.RecordBatch.from_pylist([{"s": {"gone": 1}}, {"s": None}], file_schema(before))
    assert project(batch, Schema(after)).to_pylist() == [{"s": {"added": 7}}, {"s": None}]


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


@pytest.mark.parametrize(("kind", "default"), DEFAULTS, ids=lambda value: str(value))
def test_a_column_that_the_file_lacks_has_its_initial_default(kind: IcebergType, default: Any) -> None:
    added = NestedField(9, "added", kind, required=True, initial_default=default)
    stored = Schema.model_validate_json(Schema(ID, added).model_dump_json())
    assert project(one_row({"id": 1}, ID), stored).to_pylist() == [{"id": 1, "added": default}]


def test_a_default_from_before_a_date_was_promoted_is_the_timestamp_of_its_midnight() -> None:
    added = NestedField(9, "added", TimestampType(), required=True, initial_default=date(2024, 2, 29))
    assert project(one_row({"id": 1}, ID), Schema(added)).to_pylist() == [{"added": datetime(2024, 2, 29)}]


@pytest.mark.parametrize(("kind", "value"), DEFAULTS, ids=str)
def test_a_column_that_the_file_lacks_has_the_constant_of_its_partition(kind: Any, value: Any) -> None:
    constants = {"9": constant_to_json(kind, value)}
    seen = project(one_row({"id": 1}, ID), Schema(NestedField(9, "added", kind)), constants)
    assert seen.to_pylist() == [{"added": value}]


def test_a_constant_in_nanoseconds_keeps_every_digit() -> None:
    constants = {"9": constant_to_json(TimestampNanoType(), 1_500_000_000_123_456_789)}
    seen = project(one_row({"id": 1}, ID), Schema(NestedField(9, "added", TimestampNanoType())), constants)
    assert seen["added"].view(pa.int64()).to_pylist() == [1_500_000_000_123_456_789]


def test_a_constant_outranks_a_default_and_a_column_in_the_file_outranks_both() -> None:
    name = NestedField(2, "name", StringType(), initial_default="default")
    assert project(one_row({"id": 1}, ID), Schema(name), {"2": "constant"}).to_pylist() == [{"name": "constant"}]
    assert project(one_row({"id": 1}, ID), Schema(name), {"2": None}).to_pylist() == [{"name": None}]
    assert project(one_row({"name": "own"}, NAME), Schema(name), {"2": "constant"}).to_pylist() == [{"name": "own"}]


def test_a_constant_fills_a_field_inside_a_struct_too() -> None:
    before = struct(1, "s", NestedField(2, "a", LongType()))
    after = struct(1, "s", NestedField(2, "a", LongType()), NestedField(3, "day", DateType()))
    batch = pa.RecordBatch.from_pylist([{"s": {"a": 1}}, {"s": None}], file_schema(before))
    assert project(batch, Schema(after), {"3": "2024-02-29"}).to_pylist() == [
        {"s": {"a": 1, "day": date(2024, 2, 29)}},
        {"s": None},
    ]


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
        (DecimalType(9, 2), DecimalType(9, 3)),
        (IntegerType(), DoubleType()),
        (DateType(), TimestamptzType()),
        (StructType(NestedField(2, "a", LongType())), LongType()),
        (LongType(), StructType(NestedField(2, "a", LongType()))),
        (ListType(2, LongType(), element_required=False), MapType(2, LongType(), 3, LongType())),
        (FixedType(3), FixedType(4)),
    ],
    ids=str,
)
def test_a_type_that_may_not_become_the_tables_is_an_error_that_names_column_and_types(found: Any, wanted: Any) -> None:
    with pytest.raises(ColumnError) as refused:
        plan(file_schema(NestedField(1, "c", found)), Schema(NestedField(1, "c", wanted)))
    sentence = refused.value.sentence
    assert sentence.startswith("column 'c' has type ")
    assert f"cannot become the table's {wanted}" in sentence


def test_a_null_in_a_required_column_is_an_error_that_names_it() -> None:
    batch = one_row({"id": None}, NestedField(1, "id", LongType()))
    with pytest.raises(ColumnError, match="required column 'id' holds a null"):
        project(batch, Schema(ID))


def test_a_null_in_a_required_field_of_a_struct_is_an_error_unless_the_struct_is_null() -> None:
    after = struct(3, "s", NestedField(4, "x", LongType(), required=True))
    before = struct(3, "s", NestedField(4, "x", LongType()))
    rows = [{"s": {"x": 1}}, {"s": None}]
    batch = pa.RecordBatch.from_pylist(rows, file_schema(before))
    assert through_parquet(project(batch, Schema(after))).to_pylist() == rows
    with pytest.raises(ColumnError, match=r"required column 's\.x' holds a null"):
        project(one_row({"s": {"x": None}}, before), Schema(after))


def outer(*, leaf_required: bool) -> NestedField:
    leaf = NestedField(3, "leaf", LongType(), required=leaf_required)
    return struct(1, "outer", struct(2, "inner", leaf, required=True))


def test_a_null_is_no_error_where_a_required_parent_hides_that_its_own_parent_is_null() -> None:
    rows = [{"outer": {"inner": {"leaf": 1}}}, {"outer": None}]
    batch = through_parquet(pa.RecordBatch.from_pylist(rows, file_schema(outer(leaf_required=False))))
    assert batch["outer"].field(0).null_count == 0
    assert through_parquet(project(batch, Schema(outer(leaf_required=True)))).to_pylist() == rows


def test_a_null_that_a_required_parent_shows_is_an_error_however_batches_are_cut() -> None:
    values = [{"inner": {"leaf": 7}}, {"inner": {"leaf": None}}, {"inner": {"leaf": 9}}, None]
    rows = [{"outer": value} for value in values]
    batch = through_parquet(pa.RecordBatch.from_pylist(rows, file_schema(outer(leaf_required=False))))
    wanted = Schema(outer(leaf_required=True))
    for part in (batch, batch.slice(1), batch.slice(1, 1), batch.slice(0, 2)):
        with pytest.raises(ColumnError, match=r"required column 'outer\.inner\.leaf' holds a null"):
            project(part, wanted)
    for part in (batch.slice(0, 1), batch.slice(2), batch.slice(3)):
        assert project(part, wanted).to_pylist() == part.to_pylist()


def test_only_the_columns_that_are_wanted_have_to_be_read() -> None:
    wanted = plan(file_schema(ID, NAME, NestedField(3, "x", LongType())), Schema(NestedField(3, "y", LongType()), ID))
    assert wanted.positions == {0, 2}


def test_a_column_that_was_widened_after_the_schemas_snapshot_is_narrowed_where_its_values_fit() -> None:
    wide = one_row({"id": 7}, NestedField(1, "id", LongType()))
    narrow = Schema(NestedField(1, "id", IntegerType(), required=False))
    assert project(wide, narrow).to_pylist() == [{"id": 7}]
    with pytest.raises(ColumnError, match="column 'id' holds a value of type int64 that does not fit int32"):
        project(one_row({"id": 2**40}, NestedField(1, "id", LongType())), narrow)


@pytest.mark.parametrize(
    "kind",
    [
        ListType(3, UUIDType(), element_required=False),
        MapType(3, StringType(), 4, UUIDType(), value_required=False),
        StructType(NestedField(3, "u", UUIDType(), required=False)),
    ],
    ids=str,
)
def test_a_column_with_uuids_inside_that_the_file_lacks_is_null(kind: Any) -> None:
    batch = one_row({"id": 7}, NestedField(1, "id", LongType()))
    found = project(batch, Schema(ID, NestedField(2, "added", kind, required=False)))
    assert found.to_pylist() == [{"id": 7, "added": None}]


NAN = float("nan")


@pytest.mark.parametrize(
    ("array", "target"),
    [
        (pa.array([2**31 - 1, None, -(2**31)], pa.int64()), pa.int32()),
        (pa.array([1.5, None, float("inf"), -0.0]), pa.float32()),
        (pa.array([Decimal("9999999.99"), None], pa.decimal128(20, 2)), pa.decimal128(9, 2)),
        (pa.array([date(1960, 2, 29), None]).cast(pa.timestamp("us")), pa.date32()),
    ],
    ids=str,
)
def test_values_that_fit_come_back_to_the_narrower_type(array: Any, target: pa.DataType) -> None:
    step = plan_narrowing(array.type, target, column="c")
    assert step is not None
    assert step.apply(array).type == target
    assert step.apply(array).cast(array.type).equals(array)


@pytest.mark.parametrize("array", [pa.array([1, None]), pa.array([{"a": 1}, None]), pa.array([[1], None])], ids=str)
def test_a_column_without_a_type_has_no_values(array: Any) -> None:
    step = plan_narrowing(array.type, pa.null(), column="c")
    assert step is not None
    assert step.apply(array).equals(pa.nulls(2))


def test_a_nan_fits() -> None:
    step = plan_narrowing(pa.float64(), pa.float32(), column="c")
    assert step is not None
    assert str(step.apply(pa.array([NAN])).to_pylist()) == "[nan]"


@pytest.mark.parametrize(
    ("array", "target"),
    [
        (pa.array([2**31]), pa.int32()),
        (pa.array([0.1]), pa.float32()),
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
        step.apply(array)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (pa.int32(), pa.int64()),
        (pa.int64(), pa.int16()),
        (pa.float64(), pa.int32()),
        (pa.decimal128(20, 3), pa.decimal128(9, 2)),
        (pa.string(), pa.int32()),
    ],
    ids=str,
)
def test_nothing_but_what_promotion_widened_is_narrowed(source: pa.DataType, target: pa.DataType) -> None:
    assert plan_narrowing(source, target, column="c") is None


KEY = UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
NOON = datetime(2024, 2, 29, 12, 30, 15, 123456)
MILLIS = NOON.replace(microsecond=123000)

ALLOWED = [
    (pa.array([1, None, -5], pa.int32()), pa.int64(), [1, None, -5]),
    (pa.array([1, 255], pa.uint8()), pa.int32(), [1, 255]),
    (pa.array([-7], pa.int16()), pa.int32(), [-7]),
    (pa.array([2**31 - 1], pa.uint32()), pa.int32(), [2**31 - 1]),
    (pa.array([2**32 - 1], pa.uint32()), pa.int64(), [2**32 - 1]),
    (pa.array([1.5, None], pa.float32()), pa.float64(), [1.5, None]),
    (pa.array([0.5], pa.float16()), pa.float32(), [0.5]),
    (pa.array([Decimal("1.23"), None], pa.decimal128(9, 2)), pa.decimal128(18, 2), [Decimal("1.23"), None]),
    (pa.array([Decimal("-1.23")], pa.decimal32(9, 2)), pa.decimal128(9, 2), [Decimal("-1.23")]),
    (pa.array([Decimal("1.23")], pa.decimal64(18, 2)), pa.decimal128(38, 2), [Decimal("1.23")]),
    (pa.array([Decimal("9" * 36 + ".99")], pa.decimal256(38, 2)), pa.decimal128(38, 2), [Decimal("9" * 36 + ".99")]),
    (pa.array([date(1969, 12, 31), None], pa.date32()), pa.timestamp("us"), [datetime(1969, 12, 31), None]),
    (pa.array([date(2024, 2, 29)], pa.date32()), pa.timestamp("ns"), [datetime(2024, 2, 29)]),
    (pa.array([date(2024, 2, 29)], pa.date64()), pa.date32(), [date(2024, 2, 29)]),
    (pa.array([time(1, 2, 3)], pa.time32("ms")), pa.time64("us"), [time(1, 2, 3)]),
    (pa.array([1_999], pa.time64("ns")), pa.time64("us"), [time(0, 0, 0, 1)]),
    (pa.array([MILLIS], pa.timestamp("ms")), pa.timestamp("us"), [MILLIS]),
    (pa.array([NOON], pa.timestamp("us")), pa.timestamp("us", "UTC"), [NOON.replace(tzinfo=UTC)]),
    (pa.array([NOON], pa.timestamp("us", "UTC")), pa.timestamp("us"), [NOON]),
    (pa.array([NOON], pa.timestamp("us", "Etc/UTC")), pa.timestamp("us", "UTC"), [NOON.replace(tzinfo=UTC)]),
    (pa.array([NOON], pa.timestamp("us", "Europe/Berlin")), pa.timestamp("us", "UTC"), [NOON.replace(tzinfo=UTC)]),
    (pa.array([MILLIS], pa.timestamp("ms", "+05:30")), pa.timestamp("us", "UTC"), [MILLIS.replace(tzinfo=UTC)]),
    (pa.array([NOON], pa.timestamp("us", "Asia/Tokyo")), pa.timestamp("us"), [NOON]),
    (pa.array(["a", None, ""], pa.string()), pa.large_string(), ["a", None, ""]),
    (pa.array(["a", None], pa.string_view()), pa.large_string(), ["a", None]),
    (pa.array(["ä"]).dictionary_encode(), pa.large_string(), ["ä"]),
    (pa.array([b"\xc3\xa4"], pa.binary()), pa.large_string(), ["ä"]),
    (pa.array([b"\xff", None], pa.binary()), pa.large_binary(), [b"\xff", None]),
    (pa.array([b"\xff"], pa.binary_view()), pa.large_binary(), [b"\xff"]),
    (pa.array(["{}"], pa.json_()), pa.large_string(), ["{}"]),
    (pa.array([KEY.bytes, None], pa.binary(16)), pa.uuid(), [KEY, None]),
    (pa.array([KEY.bytes, None], pa.uuid()), pa.uuid(), [KEY, None]),
    (pa.array([KEY.bytes], pa.uuid()), pa.binary(16), [KEY.bytes]),
    (pa.nulls(2), pa.large_string(), [None, None]),
    (pa.nulls(1), pa.uuid(), [None]),
    (pa.array([7, None], pa.int32()).dictionary_encode(), pa.int64(), [7, None]),
    (pa.array([NOON], pa.timestamp("us", "Asia/Tokyo")).dictionary_encode(), pa.timestamp("us"), [NOON]),
    (pa.array([True, None]), pa.bool_(), [True, None]),
]


@pytest.mark.parametrize(("array", "target", "expected"), ALLOWED, ids=str)
def test_values_keep_their_meaning_under_the_tables_type(array: Any, target: pa.DataType, expected: list[Any]) -> None:
    step = plan_promotion(array.type, target)
    assert step is not None
    promoted = step.apply(array)
    assert promoted.type == target
    assert promoted.to_pylist() == expected
    assert step.apply(pa.concat_arrays([array, array]).slice(1)).to_pylist() == (expected * 2)[1:]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (pa.int64(), pa.int32()),
        (pa.float64(), pa.float32()),
        (pa.int32(), pa.float64()),
        (pa.bool_(), pa.int32()),
        (pa.string(), pa.int64()),
        (pa.decimal128(18, 2), pa.decimal128(9, 2)),
        (pa.decimal128(9, 2), pa.decimal128(9, 3)),
        (pa.date32(), pa.timestamp("us", "UTC")),
        (pa.timestamp("us"), pa.date32()),
        (pa.binary(8), pa.uuid()),
        (pa.binary(8), pa.binary(9)),
        (pa.duration("us"), pa.int64()),
        (pa.int64(), pa.timestamp("us")),
        (pa.json_(), pa.int64()),
        (pa.dictionary(pa.int32(), pa.string()), pa.int64()),
    ],
    ids=str,
)
def test_other_types_are_refused(source: pa.DataType, target: pa.DataType) -> None:
    assert plan_promotion(source, target) is None


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
        step.apply(array)


def test_nanoseconds_in_a_microsecond_column_are_truncated_as_pyiceberg_does() -> None:
    step = plan_promotion(pa.timestamp("ns", "Asia/Tokyo"), pa.timestamp("us", "UTC"))
    assert step is not None
    array = pa.array([1_999, -1_999], pa.timestamp("ns", "Asia/Tokyo"))
    assert step.apply(array).view(pa.int64()).to_pylist() == [1, -1]


def test_zones_and_wider_decimals_are_not_copied() -> None:
    for array, target in [
        (pa.array([1, None], pa.timestamp("us", "Asia/Tokyo")), pa.timestamp("us", "UTC")),
        (pa.array([Decimal("1.23")], pa.decimal128(9, 2)), pa.decimal128(18, 2)),
    ]:
        step = plan_promotion(array.type, target)
        assert step is not None
        assert step.apply(array).buffers()[1].address == array.buffers()[1].address


def test_a_kept_dictionary_has_distinct_values_of_the_tables_type() -> None:
    array = pa.array(["a", None, "b", "a"]).dictionary_encode()
    step = plan_kept_dictionary(array.type, pa.large_string())
    assert step is not None
    kept = step.apply(array)
    assert kept.type == pa.dictionary(pa.int32(), pa.large_string())
    assert kept.dictionary_decode().equals(array.cast(pa.large_string()))


def test_dictionaries_of_numbers_and_plain_text_are_not_kept() -> None:
    assert plan_kept_dictionary(pa.dictionary(pa.int32(), pa.int64()), pa.int64()) is None
    assert plan_kept_dictionary(pa.string(), pa.large_string()) is None


def test_nan_and_negative_zero_survive_widening() -> None:
    step = plan_promotion(pa.float32(), pa.float64())
    assert step is not None
    widened = step.apply(pa.array([float("nan"), -0.0], pa.float32()))
    assert pc.is_nan(widened)[0].as_py()
    assert str(widened[1].as_py()) == "-0.0"


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
