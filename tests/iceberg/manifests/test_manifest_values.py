from typing import Any

from pyiceberg.conversions import to_bytes
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampType,
)

from icefloe.iceberg.data_file import DataFile
from icefloe.iceberg.manifests.manifest_values import comparable_bounds
from icefloe.iceberg.scan.scan_tasks import ScanTask


def bounds_of(now: PrimitiveType, lower: bytes, upper: bytes) -> tuple[Any, Any] | None:
    """The bounds of a column that has a type now, as some writer wrote them."""
    file = DataFile(path="a.parquet", file_format="PARQUET", spec_id=0, record_count=1, file_size_bytes=1)
    task = ScanTask(data_file=file, terms=(), partition=(0, ()), lower_bounds={1: lower}, upper_bounds={1: upper})
    return comparable_bounds(task, Schema(NestedField(1, "c", now, required=False))).get(1)


def test_bounds_are_values_that_compare() -> None:
    assert bounds_of(LongType(), to_bytes(LongType(), -5), to_bytes(LongType(), 7)) == (-5, 7)
    assert bounds_of(StringType(), b"a", b"b\xff") == (b"a", b"b\xff")
    assert bounds_of(DateType(), to_bytes(DateType(), 3), to_bytes(DateType(), 4)) == (3, 4)


def test_bounds_keep_the_type_they_were_written_in_when_the_column_was_widened_or_a_rollback_made_it_narrow() -> None:
    assert bounds_of(LongType(), to_bytes(IntegerType(), -5), to_bytes(IntegerType(), 7)) == (-5, 7)
    assert bounds_of(IntegerType(), to_bytes(LongType(), -5), to_bytes(LongType(), 2**40)) == (-5, 2**40)
    assert bounds_of(DecimalType(9, 2), b"\x01\x02\x03\x04\x05", b"\x7f\x02\x03\x04\x05") is not None


def test_bounds_that_do_not_compare_with_the_columns_type_are_left_out() -> None:
    assert bounds_of(TimestampType(), to_bytes(DateType(), 3), to_bytes(DateType(), 4)) is None
    assert bounds_of(LongType(), b"", b"") is None
    assert bounds_of(FloatType(), to_bytes(FloatType(), 1.0), to_bytes(FloatType(), 2.0)) is None
