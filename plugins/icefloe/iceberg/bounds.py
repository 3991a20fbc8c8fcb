"""Column bounds of data files, as values that compare."""

from collections.abc import Mapping
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from icefloe.iceberg.scan_tasks import ScanTask

__all__ = ["comparable_bounds"]

_DECODED = (DateType, DecimalType, IntegerType, LongType, TimestampType, TimestamptzType, TimeType)
_BYTEWISE = (BinaryType, StringType)


def comparable_bounds(task: ScanTask, schema: Schema) -> Mapping[int, tuple[Any, Any]]:
    """(lower, upper) by field id for the columns whose bounds order files; floats, with their NaNs, are left out.

    Args:
        task: with bounds in Iceberg's binary form, in the type the column had when the file was written.
        schema: whose columns are wanted.
    """
    bounds: dict[int, tuple[Any, Any]] = {}
    for field_id in task.lower_bounds.keys() & task.upper_bounds.keys() & set(schema.field_ids):
        field_type = schema.find_type(field_id)
        lower, upper = task.lower_bounds[field_id], task.upper_bounds[field_id]
        if isinstance(field_type, _BYTEWISE):
            bounds[field_id] = (lower, upper)
        elif isinstance(field_type, _DECODED):
            written = (
                IntegerType() if isinstance(field_type, LongType) and len(lower) == len(upper) == 4 else field_type
            )
            bounds[field_id] = (from_bytes(written, lower), from_bytes(written, upper))
    return bounds
