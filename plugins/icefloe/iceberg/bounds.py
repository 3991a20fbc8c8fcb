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
    PrimitiveType,
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
            decoded = _decoded(field_type, lower), _decoded(field_type, upper)
            if None not in decoded:
                bounds[field_id] = decoded
    return bounds


def _decoded(field_type: PrimitiveType, bound: bytes) -> Any:
    """A bound as a value; None where it was written in a type that does not compare with the column's.

    The column may have been widened since its file was written, or, after a rollback, have been wider then.
    """
    written: PrimitiveType | None = field_type
    if isinstance(field_type, IntegerType | LongType):
        written = {4: IntegerType(), 8: LongType()}.get(len(bound))
    elif not isinstance(field_type, DecimalType):
        written = field_type if len(bound) == (4 if isinstance(field_type, DateType) else 8) else None
    return None if written is None else from_bytes(written, bound)
