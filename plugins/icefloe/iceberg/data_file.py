"""Data files and delete files as a task needs them, in the plan's documents."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Annotated, Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
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

from icefloe.documents import LEFT_OUT_IF_NONE, Document

__all__ = ["DataFile", "DeleteFile"]


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
class RowGroups(Document):
    """Some row groups of a Parquet file, one after the other."""

    first: int
    stop: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile(Document):
    """One data file, or row groups of one that a task reads like a file.

    Positions count from the first row read.

    Attributes:
        record_count: before any delete.
        constants: by source field id (as text) the value of each identity partition, for a column the file lacks.
        first_row_id: the ``_row_id`` of its first row in V3 tables, in the steps that it is read for; None if this or
            another file of these steps has none.
    """

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
        """The path and the constants: entries with equal ones list the same rows.

        A table may list one path in several partitions; a column that the file lacks then has another value.
        """
        # A text, because 100,000 tuples more would cost the planner half a second of garbage collection.
        return f"{self.path}\0{sorted(self.constants.items())}" if self.constants else self.path

    @property
    def read_bytes(self) -> int:
        """Bytes of all rows to read."""
        return self.file_size_bytes if self.row_groups is None else self.row_groups.size_bytes

    @property
    def noun(self) -> str:
        """Name of this kind of file in sentences."""
        return "data file"

    def parts(self, row_groups: Sequence[tuple[int, int]]) -> list[Self]:
        """Each row group as a file of its own, by (rows, bytes) of all of them."""
        found, rows_before = [], 0
        for number, (rows, size_bytes) in enumerate(row_groups):
            part = RowGroups(first=number, stop=number + 1, size_bytes=size_bytes)
            row_id = None if self.first_row_id is None else self.first_row_id + rows_before
            found.append(replace(self, record_count=rows, first_row_id=row_id, row_groups=part))
            rows_before += rows
        return found

    def joined(self, *others: Self) -> Self:
        """A part of a file and the next parts of it as one."""
        parts = [self, *others]
        groups = [part.row_groups for part in parts if part.row_groups is not None]
        joined = RowGroups(
            first=groups[0].first, stop=groups[-1].stop, size_bytes=sum(group.size_bytes for group in groups)
        )
        return replace(self, record_count=sum(part.record_count for part in parts), row_groups=joined)

    def inherited_row_ids(self, row_ids: pa.Array, positions: NDArray[np.int64]) -> pa.Array:
        """Row ids from the file, otherwise by position; nulls without ``first_row_id``, whatever the file says."""
        if self.first_row_id is None:
            return pa.nulls(len(row_ids), pa.int64())
        if not row_ids.null_count:
            return row_ids
        return pc.coalesce(row_ids, pa.array(positions + self.first_row_id, pa.int64()))


def constant_to_json(value_type: PrimitiveType, value: Any) -> Constant:
    """A partition value as JSON.

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
    """The partition value that ``constant_to_json`` wrote, in the column's present type.

    Dates and timestamps are days, microseconds or nanoseconds since the epoch; other values are as in PyIceberg.

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
        text = str(value).removesuffix(_ZONE)
        return value if isinstance(value, int) else int(np.datetime64(text, unit).astype(np.int64))
    return from_json(value_type, value)


def _float_to_json(value: float) -> Constant:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value if value or math.copysign(1.0, value) > 0 else "-0.0"


class FileContent(IntEnum):
    """Numbered as in the spec."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFile(Document):
    """A position delete file, deletion vector or equality delete file.

    Attributes:
        file_size_bytes: of the whole file, also for a deletion vector.
        referenced_data_file: the only data file it applies to, if any; a deletion vector always has one.
    """

    path: str
    content: FileContent
    file_format: str
    spec_id: int
    record_count: int
    file_size_bytes: int
    sequence_number: int
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size_bytes: int | None = None
    equality_field_ids: tuple[int, ...] = ()
    constants: Mapping[str, Constant] = field(default_factory=dict)

    @property
    def noun(self) -> str:
        """Name of this kind of file in sentences."""
        return "deletion vector" if self.is_deletion_vector else "delete file"

    @property
    def is_deletion_vector(self) -> bool:
        """True if it is a bitmap in a Puffin file (V3)."""
        return self.file_format == "PUFFIN"

    @property
    def size_bytes(self) -> int:
        """Number of bytes to read for it."""
        return self.file_size_bytes if self.content_size_bytes is None else self.content_size_bytes
