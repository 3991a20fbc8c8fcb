from typing import Any

import pytest
from pyiceberg.conversions import to_bytes
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
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


@pytest.mark.parametrize(
    ("now", "lower", "upper", "bounds"),
    [
        (LongType(), to_bytes(LongType(), -5), to_bytes(LongType(), 7), (-5, 7)),
        (StringType(), b"a", b"b\xff", (b"a", b"b\xff")),
        (DateType(), to_bytes(DateType(), 3), to_bytes(DateType(), 4), (3, 4)),
        (LongType(), to_bytes(IntegerType(), -5), to_bytes(IntegerType(), 7), (-5, 7)),
        (IntegerType(), to_bytes(LongType(), -5), to_bytes(LongType(), 2**40), (-5, 2**40)),
        (TimestampType(), to_bytes(DateType(), 3), to_bytes(DateType(), 4), None),
        (LongType(), b"", b"", None),
        (FloatType(), to_bytes(FloatType(), 1.0), to_bytes(FloatType(), 2.0), None),
    ],
    ids=str,
)
def test_bounds_are_values_in_the_type_they_were_written_in_if_they_compare(
    now: PrimitiveType, lower: bytes, upper: bytes, bounds: Any
) -> None:
    """The column's type is that of now: it was widened, or a rollback made it narrow."""
    file = DataFile(path="a.parquet", file_format="PARQUET", spec_id=0, record_count=1, file_size_bytes=1)
    task = ScanTask(data_file=file, terms=(), partition=(0, ()), lower_bounds={1: lower}, upper_bounds={1: upper})
    assert (
        comparable_bounds(task.lower_bounds, task.upper_bounds, Schema(NestedField(1, "c", now, required=False))).get(1)
        == bounds
    )
