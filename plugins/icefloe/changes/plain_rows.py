"""Rows as Python's values, to be shown to a user."""

from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["plain_rows"]


def plain_rows(rows: pa.RecordBatch | pa.Table) -> list[dict[str, Any]]:
    """Each row by the names of its columns; a date or time that Python does not have is ISO 8601 text.

    Python has the years 1 to 9999. It has nanoseconds only if pandas is there, which icefloe does not need.

    >>> plain_rows(pa.table({"day": pa.array([0, 2932897], pa.date32())}))
    [{'day': datetime.date(1970, 1, 1)}, {'day': '10000-01-01'}]
    """
    try:
        found: list[dict[str, Any]] = rows.to_pylist()
    except (OverflowError, ValueError):
        columns = [[_plain(value) for value in column] for column in rows.columns]
        found = [dict(zip(rows.column_names, row, strict=True)) for row in zip(*columns, strict=True)]
    return found


def _plain(value: pa.Scalar) -> Any:
    if isinstance(value, pa.MapScalar) and value.is_valid:
        return [(_plain(entry[0]), _plain(entry[1])) for entry in value.values]
    if isinstance(value, pa.ListScalar) and value.is_valid:
        return [_plain(each) for each in value.values]
    if isinstance(value, pa.StructScalar) and value.is_valid:
        return {name: _plain(each) for name, each in value.items()}
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        if not pa.types.is_temporal(value.type):
            raise
        unit: Any = value.type.unit if pa.types.is_timestamp(value.type) else "D"
        zone = "Z" if pa.types.is_timestamp(value.type) and value.type.tz else ""
        return f"{np.datetime64(value.value, unit)}{zone}"
