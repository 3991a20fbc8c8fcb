import pyarrow as pa
import pytest

from icefloe.sinks.parquet_files import row_bytes
from sinks.delivered_changes import changes, rechunked

STRUCT = pa.struct({"a": pa.int32(), "text": pa.large_string()})


@pytest.mark.parametrize(
    ("values", "kind", "sizes"),
    [
        ([1, None], pa.int64(), [8, 8]),
        ([True, False], pa.bool_(), [1, 1]),
        ([None, None], pa.null(), [1, 1]),
        (["a", None, "bcd"], pa.string(), [9, 8, 11]),
        ([b"a", None, b""], pa.large_binary(), [9, 8, 8]),
        ([b"abc"], pa.binary(3), [3]),
        ([{"a": 1, "text": "xy"}, None], STRUCT, [14, 12]),
        ([["a", "bc"], None, []], pa.large_list(pa.large_string()), [8 + 9 + 10, 8, 8]),
        ([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32()), [8 + 9 + 4, 8, 8]),
        ([[[1, 2], [3]], [None]], pa.list_(pa.list_(pa.int16())), [8 + 8 + 4 + 8 + 2, 8 + 8]),
    ],
)
def test_a_row_takes_what_its_values_take(values, kind, sizes):
    rows = pa.record_batch([pa.array(values, kind)], names=["it"])
    assert row_bytes(rows).tolist() == sizes
    assert [int(each) for place in range(len(values)) for each in row_bytes(rows.slice(place, 1))] == sizes


def test_rows_are_as_large_in_any_batch():
    batch = changes(1_000)
    parts = [int(each) for part in rechunked(batch, 7) for each in row_bytes(part)]
    assert parts == row_bytes(batch).tolist()
    assert 0.8 * batch.nbytes < sum(parts) < 1.3 * batch.nbytes
