import io
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icefloe.iceberg.schemas.conversions import null_array, without_nulls

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
