from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from icefloe.iceberg.schemas.projection import plan_narrowing
from icefloe.iceberg.unreadable import ColumnError

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
