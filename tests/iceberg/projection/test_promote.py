from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from icefloe.iceberg.schemas.projection import plan_kept_dictionary, plan_promotion

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
