"""Structs, lists, maps and nulls, rebuilt."""

import io
from decimal import Decimal
from operator import methodcaller
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icefloe.iceberg.schemas.conversions import (
    ListStep,
    TakenField,
    null_array,
    without_nulls,
)

INT64 = methodcaller("cast", pa.int64())
TARGET = pa.large_list(pa.field("element", pa.int64()))
LISTS = [[1, 2], None, [3, None], [4, 5]]
KINDS = [
    pa.list_(pa.int32()),
    pa.large_list(pa.int32()),
    pa.list_(pa.int32(), 2),
    pa.list_view(pa.int32()),
    pa.large_list_view(pa.int32()),
]


def slices(array: Any) -> list[Any]:
    return [array, array.slice(1), array.slice(2, 1), array.slice(1, 1), array.slice(0, 0)]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_list_layout_becomes_the_tables_also_in_slices(kind: pa.DataType) -> None:
    step = ListStep(target=TARGET, element=TakenField(position=0, step=INT64))
    for array in slices(pa.array(LISTS, kind)):
        seen = step(array)
        seen.validate(full=True)
        assert seen.type == TARGET
        assert seen.to_pylist() == array.to_pylist()


@pytest.mark.parametrize("kind", [pa.list_view(pa.int32()), pa.large_list_view(pa.int32())], ids=str)
def test_list_views_may_overlap_and_have_any_order(kind: pa.DataType) -> None:
    offsets = pa.array([2, 0, 1], pa.int32() if kind == pa.list_view(pa.int32()) else pa.int64())
    sizes = pa.array([1, 2, 2], offsets.type)
    views = pa.ListViewArray if offsets.type == pa.int32() else pa.LargeListViewArray
    array = views.from_arrays(offsets, sizes, pa.array([1, 2, 3], pa.int32()))
    step = ListStep(target=TARGET, element=TakenField(position=0, step=INT64))
    assert step(array).to_pylist() == [[3], [1, 2], [2, 3]]


ARRAYS = [
    pa.array([1, None, 3], pa.int32()),
    pa.array([True, None, False]),
    pa.array(["a", None, "c"], pa.large_string()),
    pa.array([b"a", None], pa.binary(1)),
    pa.array([Decimal("1.2"), None], pa.decimal128(9, 2)),
    pa.array([b"a" * 16, None], pa.uuid()),
    pa.array([[1, None], None, []], pa.large_list(pa.int64())),
    pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
    pa.array([{"a": 1}, None, {"a": None}], pa.struct([("a", pa.int64())])),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: str(array.type))
def test_values_stay_and_nulls_become_something(array: Any) -> None:
    for given in (array, array.slice(1), pa.concat_arrays([array, array]).slice(1)):
        filled = without_nulls(given)
        filled.validate(full=True)
        assert filled.type == array.type
        assert filled.null_count == 0
        valid = given.is_valid().to_pylist()
        pairs = zip(given.to_pylist(), filled.to_pylist(), valid, strict=True)
        assert all(before == after for before, after, is_valid in pairs if is_valid)


def test_a_null_struct_with_required_fields_can_be_written() -> None:
    leaf = pa.struct([pa.field("x", pa.large_list(pa.int64()), nullable=False), pa.field("y", pa.string())])
    kind = pa.struct([pa.field("inner", leaf, nullable=False), pa.field("key", pa.uuid(), nullable=False)])
    array = null_array(kind, 3)
    array.validate(full=True)
    buffer = io.BytesIO()
    pq.write_table(pa.table([array], schema=pa.schema([pa.field("s", kind)])), buffer)
    assert pq.ParquetFile(buffer).read().to_pylist() == [{"s": None}] * 3
