"""Keys of bytes compare as Arrow's own sort has values, and rows are sorted in little memory."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, strategies

from icefloe.changes.columns import ChangeColumns
from icefloe.sinks.row_order import KeySample, RowOrder, _key_bytes

VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bool": (pa.bool_(), [True, False]),
    "int32": (pa.int32(), [-(2**31), -1, 0, 1, 2**31 - 1]),
    "int64": (pa.int64(), [-(2**63), -1, 0, 255, 256, 2**63 - 1]),
    "float32": (pa.float32(), [float("-inf"), -1.5, -0.0, 1e-30, 1.5, float("inf"), float("nan")]),
    "float64": (pa.float64(), [float("-inf"), -1e300, -1.5, 0.0, 5e-324, 1.5, float("inf"), float("nan")]),
    "decimal": (
        pa.decimal128(38, 2),
        [Decimal(-(10**35)), Decimal("-0.01"), Decimal(0), Decimal(2**70), Decimal("0.01")],
    ),
    "decimal9": (pa.decimal128(9, 2), [Decimal("-1.00"), Decimal("2.50"), Decimal("0.00")]),
    "date": (pa.date32(), [date(1, 1, 1), date(1969, 12, 31), date(2026, 1, 1)]),
    "time": (pa.time64("us"), [time(0, 0), time(23, 59, 59, 999999)]),
    "timestamp": (pa.timestamp("us", "UTC"), [datetime(1960, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)]),
    "nanoseconds": (pa.timestamp("ns"), [-1, 0, 1]),
    "text": (pa.string(), ["", "a", "a\x00", "a\x00b", "ab", "\x00", "é", "\uffff", "\U0001f600", "Z"]),
    "large text": (pa.large_string(), ["b", "a"]),
    "bytes": (pa.binary(), [b"", b"\x00", b"\x00\x00", b"\x00\xff", b"\xff", b"a"]),
    "fixed": (pa.binary(2), [b"\x00\x00", b"\x00\xff", b"\xff\x00"]),
}


@pytest.mark.parametrize("name", VALUES)
def test_keys_compare_as_arrow_sorts_values_with_nulls_first_and_nan_last(name: str) -> None:
    kind, values = VALUES[name]
    column = pa.array([*values, None, *values[::-1], None], kind)
    for some in (column, column.slice(1), column.slice(2, 3)):
        # Arrow puts NaN next to nulls, so it is asked about numbers alone.
        expected = sorted(
            range(len(some)),
            key=lambda place: (some[place].is_valid, _is_nan(some[place].as_py())),
        )
        numbers = some.take(pa.array(expected))
        order = pc.sort_indices(_key_bytes(some))
        is_plain = pc.and_(some.is_valid(), pa.array([not _is_nan(each.as_py()) for each in some]))
        plain = some.filter(is_plain)
        by_arrow = plain.take(pc.sort_indices(plain))
        found = some.take(order)
        nulls, nans = some.null_count, len(numbers) - some.null_count - len(plain)
        assert found.slice(nulls, len(plain)).equals(by_arrow)
        assert found.slice(0, nulls).null_count == nulls
        assert all(_is_nan(each.as_py()) for each in found.slice(len(found) - nans))


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and value != value


def test_equal_values_have_equal_keys() -> None:
    other_nan = np.array([0xFFF8000000000001], np.uint64).view(np.float64)
    floats = pa.array([0.0, -0.0, float("nan"), float(other_nan[0])])
    assert len(set(_key_bytes(floats).to_pylist())) == 2


WORDS = strategies.text(alphabet="\x00\x01a\xff", max_size=3)


@given(strategies.lists(strategies.tuples(WORDS, WORDS), max_size=20))
def test_keys_of_several_columns_compare_column_by_column(pairs: list[tuple[str, str]]) -> None:
    columns = [pa.array([pair[place] for pair in pairs], pa.string()) for place in (0, 1)]
    keys = pc.binary_join_element_wise(*map(_key_bytes, columns), pa.scalar(b"", pa.large_binary()))
    # Python compares texts by code point.
    assert [pairs[place] for place in pc.sort_indices(keys).to_pylist()] == sorted(pairs)


def changes(seed: int, count: int, *, values: int) -> pa.RecordBatch:
    random = np.random.default_rng(seed)
    number = random.integers(0, values, count)
    return pa.record_batch(
        {
            "text": pa.array([None if each == 0 else f"x{each}é" for each in number], pa.string()),
            "number": pa.array(random.normal(size=count), mask=random.random(count) < 0.1),
            ChangeColumns.TYPE: pa.array(random.choice(["INSERT", "DELETE"], count)),
            ChangeColumns.ORDINAL: pa.array(random.integers(0, 3, count), pa.int32()),
            "position": pa.array(np.arange(count)),
        }
    )


@pytest.mark.parametrize(("values", "memory_bytes"), [(1, 1 << 12), (3, 1 << 12), (1000, 1 << 14), (1000, 1 << 30)])
def test_rows_are_sorted_stably_in_any_memory(values: int, memory_bytes: int) -> None:
    rows, order = changes(7, 5000, values=values), RowOrder(columns=("text", ChangeColumns.ORDINAL))
    batches = pa.Table.from_batches([rows]).to_batches(max_chunksize=100)
    read = partial(order.keyed, batches)
    found = pa.Table.from_batches(order.sorted(read, rows.schema, memory_bytes=memory_bytes), rows.schema)
    ranked = pa.Table.from_batches([rows]).append_column(
        "rank", pa.array([each == "INSERT" for each in rows.column(ChangeColumns.TYPE).to_pylist()])
    )
    keys = [(name, "ascending", "at_start") for name in ("text", ChangeColumns.ORDINAL, "rank", "position")]
    places = pc.sort_indices(ranked, sort_keys=keys)
    assert found.equals(ranked.take(places).drop(["rank"]))


def test_a_sample_is_the_same_however_its_keys_come() -> None:
    keys = pa.array([f"{each:06d}".encode() for each in range(20_000)], pa.large_binary())
    found = []
    for step in (1, 7, 4096, 20_000):
        sample = KeySample()
        for start in range(0, len(keys), step):
            sample.add(keys.slice(start, step))
        found.append(sample.splitters(9).to_pylist())
    assert len(found[0]) == 9
    assert found == [found[0]] * 4
