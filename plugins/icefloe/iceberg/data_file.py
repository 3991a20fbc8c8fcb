"""A data file as a task needs it: its location, and the values that are in its manifest entry and not in the file."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final

import numpy as np
from pydantic import ConfigDict
from pyiceberg.conversions import from_json, to_json
from pyiceberg.types import (
    DateType,
    DoubleType,
    FloatType,
    PrimitiveType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
)

from icefloe.documents import LEFT_OUT_IF_NONE, STRICT

__all__ = ["DataFile", "RowGroups"]

Constant = bool | int | float | str | None
"""A partition value in JSON: the single-value serialization of the Iceberg spec, and text for some floats.

These are "NaN", "Infinity", "-Infinity" and "-0.0". So two values are one partition exactly if they are equal in this
form: NaN equals NaN, and -0.0 is not 0.0.
"""

_UNITS: Final[Mapping[type[PrimitiveType], str]] = {
    DateType: "D", TimestampType: "us", TimestamptzType: "us", TimestampNanoType: "ns", TimestamptzNanoType: "ns",
}  # fmt: skip
_ZONE: Final = "+00:00"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroups:
    """Some row groups of a Parquet file, one after the other.

    Attributes:
        first: number of the first one, from 0.
        stop: number after the last one.
        size_bytes: bytes of their column chunks in the file.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    first: int
    stop: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One data file of the table, or row groups of one that a task reads as if they were a file of their own.

    It is part of the plan's document, a few hundred bytes of JSON. Positions count from the first row that is read.

    Attributes:
        path: its location, as the manifest names it.
        file_format: PARQUET, ORC or AVRO.
        spec_id: the partition spec it was written with.
        record_count: its rows, or those of its row groups, before any delete.
        file_size_bytes: size of the whole file.
        constants: by source field id (as text) the value of each identity partition; fills a column the file lacks.
        sequence_number: its data sequence number; 0 in V1 tables.
        first_row_id: the ``_row_id`` of its first row in V3 tables, in the steps that it is read for; None: this file
            has none, or another file of these steps has none.
        row_groups: the row groups to read; None: all.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    path: str
    file_format: str
    spec_id: int
    record_count: int
    file_size_bytes: int
    constants: Mapping[str, Constant] = field(default_factory=dict)
    sequence_number: int = 0
    first_row_id: int | None = None
    row_groups: Annotated[RowGroups | None, LEFT_OUT_IF_NONE] = None

    @property
    def identity(self) -> str:
        """The path and the constants: entries of manifests that have both in common list the same rows.

        A table may list one path in several partitions, or again after its partitions have changed. A column that the
        file lacks then has another value each time.
        """
        # A text, because 100,000 tuples more would cost the planner half a second of garbage collection.
        return f"{self.path}\0{sorted(self.constants.items())}" if self.constants else self.path

    @property
    def read_bytes(self) -> int:
        """Bytes of all rows to read, in the file."""
        return self.file_size_bytes if self.row_groups is None else self.row_groups.size_bytes

    @property
    def noun(self) -> str:
        """Name of this kind of file in sentences."""
        return "data file"


def constant_to_json(value_type: PrimitiveType, value: Any) -> Constant:
    """A partition value as JSON.

    Args:
        value_type: its Iceberg type.
        value: as PyIceberg reads it from a manifest: dates and times may be integers.

    >>> from pyiceberg.types import DateType
    >>> constant_to_json(DateType(), 17486), constant_to_json(DoubleType(), float("nan"))
    ('2017-11-16', 'NaN')
    """
    if value is None:
        return None
    if isinstance(value_type, FloatType | DoubleType):
        return _float_to_json(value)
    unit: Any = _UNITS.get(type(value_type))
    if unit is not None and isinstance(value, int):
        # NumPy has the years before 1 and after 9999, in which Spark writes and for which Python has no date.
        zone = _ZONE if isinstance(value_type, TimestamptzType | TimestamptzNanoType) else ""
        return np.datetime_as_string(np.datetime64(value, unit)).removesuffix(".000000") + zone
    return to_json(value_type, value)


def constant_from_json(value_type: PrimitiveType, value: Constant) -> Any:
    """The partition value that ``constant_to_json`` wrote, in the type that the column has now.

    Returns:
        The value as PyIceberg's ``from_json`` gives it, but dates and timestamps as days, microseconds or nanoseconds
        since the epoch.

    >>> from pyiceberg.types import LongType
    >>> constant_from_json(DateType(), "2017-11-16"), constant_from_json(LongType(), 7)
    (17486, 7)
    """
    if value is None:
        return None
    if isinstance(value_type, FloatType | DoubleType):
        return float(value)
    unit: Any = _UNITS.get(type(value_type))
    if unit is not None:
        # Some writers leave out the logical type of a date.
        return value if isinstance(value, int) else _since_epoch(str(value), unit)
    return from_json(value_type, value)


def _since_epoch(text: str, unit: Any) -> int:
    return int(np.datetime64(text.removesuffix(_ZONE), unit).astype(np.int64))


def _float_to_json(value: float) -> Constant:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value if value or math.copysign(1.0, value) > 0 else "-0.0"
