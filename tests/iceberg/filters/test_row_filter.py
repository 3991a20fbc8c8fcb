from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
)

from iceberg.filtered_rows import FILTERS, SCHEMA, Filter, rows
from icefloe.errors import TerminalError
from icefloe.iceberg.filters.row_filter import RowFilter
from support.tables.written_tables import create_table, read_table


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    created = create_table(tmp_path_factory.mktemp("filtered"), SCHEMA)
    created.append(rows())
    return created


@pytest.fixture(scope="module")
def batch(table: Table) -> pa.RecordBatch:
    return read_table(table).combine_chunks().to_batches()[0]


def parse(text: str, schema: Schema = SCHEMA) -> RowFilter:
    return RowFilter.parse(text, schema, table="db.t")


def passing(text: str, batch: pa.RecordBatch) -> list[int]:
    """The ids of the rows that pass."""
    return batch.column("id").filter(pa.array(parse(text).mask(batch))).to_pylist()


def passed_values(text: str, values: pa.Array, kind: Any) -> list[Any]:
    schema = Schema(NestedField(1, "c", kind, required=False))
    mask = parse(text, schema).mask(pa.record_batch([values], names=["c"]))
    assert mask.dtype == np.bool_
    return values.filter(pa.array(mask)).to_pylist()


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(FILTERS)
def test_the_rows_that_pass_are_those_of_a_scan(table: Table, batch: pa.RecordBatch, found: Filter) -> None:
    expected = table.scan(row_filter=found.reference, selected_fields=("id",)).to_arrow()["id"].to_pylist()
    assert passing(found.text, batch) == expected, found.text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("c = 1", [1]),
        ("c != 1", [2, 3]),
        ("not (c = 1)", [2, 3]),
        ("c not in (1, 2)", [3]),
        ("not (c != 1)", [1]),
        ("c is null or c = 3", [None, 3]),
        ("not (c is null or c = 3)", [1, 2]),
        ("true", [None, 1, 2, 3]),
        ("False", []),
    ],
)
def test_a_null_compares_with_nothing(text: str, expected: list[int | None]) -> None:
    assert passed_values(text, pa.array([None, 1, 2, 3], pa.int32()), IntegerType()) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("c < 3000000000", [1]),
        ("c > 3000000000", []),
        ("c = 3000000000", []),
        ("not (c > 3000000000)", [1]),
        ("c in (1, 3000000000)", [1]),
        ("c in (3000000000, 4000000000)", []),
        ("c not in (3000000000, 4000000000)", [1]),
    ],
)
def test_a_number_that_the_column_cannot_hold_is_compared_by_value(text: str, expected: list[int]) -> None:
    assert passed_values(text, pa.array([None, 1], pa.int32()), IntegerType()) == expected


def test_a_float_is_compared_with_the_nearest_float_and_with_more_than_it_holds() -> None:
    values = pa.array([0.1, float("inf"), float("nan"), -0.0, None], pa.float32())
    assert passed_values("c = 0.1", values, FloatType()) == values[:1].to_pylist()
    assert passed_values("c in (0.1, 7.0)", values, FloatType()) == values[:1].to_pylist()
    huge = "1" + "0" * 39
    assert passed_values(f"c < {huge}", values, FloatType()) == [values[0].as_py(), -0.0]
    assert passed_values(f"c > {huge}", values, FloatType()) == [float("inf")]


def test_negative_zero_is_zero_also_in_a_list() -> None:
    values = pa.array([0.0, -0.0, 1.0, None], pa.float32())
    assert passed_values("c in (0, 7)", values, FloatType()) == [0.0, -0.0]
    assert passed_values("c not in (0, 7)", values, FloatType()) == [1.0]


def test_decimals_of_all_digits_are_compared_exactly() -> None:
    number = "123456789012345678901234567890123456.78"
    values = pa.array([Decimal(number), Decimal(number[:-1] + "9")], pa.decimal128(38, 2))
    for literal in (number, f"'{number}'"):
        assert passed_values(f"c = {literal}", values, DecimalType(38, 2)) == [Decimal(number)]
        assert passed_values(f"c > {literal}", values, DecimalType(38, 2)) == [Decimal(number[:-1] + "9")]


@pytest.mark.parametrize(
    "operator", ["= 'a'", "like 'a%'", "not like 'a%'", "is null", "is not null", "in ('a', 'ü')", "not in ('a', 'ü')"]
)
def test_encoded_text_passes_like_plain_text(batch: pa.RecordBatch, operator: str) -> None:
    encoded = pa.record_batch([batch.column("id"), batch.column("s").dictionary_encode()], names=["id", "s"])
    assert passing(f"s {operator}", encoded) == passing(f"s {operator}", batch)


def test_a_null_inside_a_dictionary_is_a_null() -> None:
    encoded = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array([None, "a"], pa.large_string()))
    assert parse("s is null").mask(pa.record_batch([encoded], names=["s"])).tolist() == [True, False, True]
    assert parse("s != 'b'").mask(pa.record_batch([encoded], names=["s"])).tolist() == [False, True, False]


def test_a_slice_of_a_batch_passes_like_its_rows(batch: pa.RecordBatch) -> None:
    for text in ("place.in.x = 7", "u is null", "place is null", "s like 'a%'"):
        assert passing(text, batch.slice(37)) == [row for row in passing(text, batch) if row >= 37]


def test_a_field_of_a_missing_struct_is_null_even_if_it_is_required() -> None:
    place = NestedField(2, "place", StructType(NestedField(3, "x", IntegerType(), required=True)))
    values = pa.array([{"x": 1}, None], pa.struct([pa.field("x", pa.int32(), nullable=False)]))
    batch = pa.record_batch([values], names=["place"])
    assert parse("place.x is null", Schema(place)).mask(batch).tolist() == [False, True]
    assert parse("place.x is not null", Schema(place)).mask(batch).tolist() == [True, False]


def test_the_columns_it_needs_are_the_top_level_ones() -> None:
    found = parse("place.in.x = 1 and (s = 'a' or place.zip is null)")
    assert found.columns == {"s", "place"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("S = 'a'", r"filter names column 'S', which table db.t does not have; did you mean 's'\?"),
        ("place.in.town = 'a'", r"did you mean 'place.in.x', 'place.in.city', 'place.in'"),
        ("tags.element = 'a'", r"filter names 'tags.element', which is inside a list or map of table db.t"),
        ("i = 1.5", r"column 'i' of table db.t, of type int, with 1.5: write a value such as 7"),
        ("i in (1, 2) or i in ('a', 'b')", r"of type int, with '[ab]'"),
        ("dec = 1.555", r"of type decimal\(9, 2\), with 1.555: write a number of at most 7 digits before the point"),
        ("at > '2024-02-29'", r"of type timestamp, with '2024-02-29': write a value such as '2024-02-29T12:30:00'"),
        ("at > 99999999999999999999", r"of type timestamp, with 99999999999999999999"),
        ("bin = 'a'", r"of type binary, with 'a': a filter's text has no values of this type; only is null"),
        ("place = 'a'", r"only is null and is not null apply to it"),
        ("i like '1%'", r"column 'i' of table db.t, of type int, with '1%': like compares text only"),
        ("f = 'nan'", r"of type float, with 'nan'"),
    ],
)
def test_names_and_values_that_do_not_fit_are_refused_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(TerminalError, match=sentence):
        parse(text)


def test_a_text_nested_without_end_is_refused() -> None:
    text = "a = 1"
    for value in range(2000):
        text = f"({text}) {'and' if value % 2 else 'or'} a = {value}"
    with pytest.raises(TerminalError, match="nested too deeply"):
        parse(text, Schema(NestedField(1, "a", LongType())))


def test_nan_is_unequal_to_everything_and_not_turns_that_round() -> None:
    values = pa.array([float("nan"), 1.0, None])
    for text in ("c < 2", "c > 2", "c = 2", "c in (2, 3)"):
        assert passed_values(f"{text} and c is nan", values, DoubleType()) == []
    for text in ("c != 2", "c not in (2, 3)", "not (c < 2)", "not (c >= 2)", "not (c = 2)", "not (c between 1 and 2)"):
        assert len(passed_values(f"{text} and c is nan", values, DoubleType())) == 1
        assert len(passed_values(f"not ({text}) and c is nan", values, DoubleType())) == 0


def test_uuids_are_compared_by_their_bytes(batch: pa.RecordBatch) -> None:
    values = batch.column("u").to_pylist()
    for literal in ("f79c3e09-677c-4bbd-a479-3f349cb785e7", "70000000-0000-0000-0000-000000000000"):
        uuid = UUID(literal)
        expected = {"=": uuid.__eq__, "<": uuid.__gt__, ">=": uuid.__le__, "!=": uuid.__ne__}
        for operator, holds in expected.items():
            rows = [row for row, value in enumerate(values) if value is not None and holds(value)]
            assert passing(f"u {operator} '{literal}'", batch) == rows


def test_nanoseconds_can_be_null_and_nothing_else() -> None:
    schema = Schema(NestedField(1, "ns", TimestampNanoType()), NestedField(2, "s", StringType()))
    batch = pa.record_batch([pa.array([None, 5], pa.timestamp("ns"))], names=["ns"])
    assert parse("ns is null", schema).mask(batch).tolist() == [True, False]
    with pytest.raises(TerminalError, match="of type timestamp_ns"):
        parse("ns = '2024-02-29T12:30:00'", schema)
