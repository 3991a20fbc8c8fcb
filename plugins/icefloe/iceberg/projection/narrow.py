"""From a wider type in a file to the narrower one of an older schema: exact, or an error.

A range that ends at a rollback is read in the schema of the snapshot that became current. It removes rows of newer
files. Before they were written, a column of that schema may have been widened, or have got a type at all.
"""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.iceberg.projection.conversions import Conversion, Nulls
from icefloe.iceberg.unreadable import ColumnError


def plan_narrowing(source: pa.DataType, target: pa.DataType, *, column: str) -> Conversion | None:
    """The step that undoes a widening by Iceberg's promotion; None if the type is not a wider one.

    Args:
        source: as pyarrow reads the file.
        target: a type of ``arrow_type``, not nested.
        column: its dotted name, for the error of a value that does not fit.

    >>> plan_narrowing(pa.int64(), pa.int32(), column="id")
    Narrow(target=DataType(int32), column='id')
    >>> plan_narrowing(pa.int32(), pa.int64(), column="id") is None
    True
    """
    if pa.types.is_null(target):
        return Nulls(target)
    is_wider = (source, target) in ((pa.int64(), pa.int32()), (pa.float64(), pa.float32()))
    if pa.types.is_timestamp(source) and pa.types.is_date(target):
        is_wider = True
    if pa.types.is_decimal(source) and pa.types.is_decimal(target):
        is_wider = source.scale == target.scale and source.precision > target.precision
    return Narrow(target, column) if is_wider else None


@dataclass(frozen=True, slots=True)
class Narrow:
    """Values of a wider type that fit into a narrower one."""

    target: pa.DataType
    column: str

    def apply(self, array: pa.Array) -> pa.Array:
        """A new array of the target type.

        Raises:
            ColumnError: a value does not fit.
        """
        try:
            narrowed = array.cast(self.target)
        except pa.ArrowInvalid as cause:
            raise self._does_not_fit(array.type) from cause
        if not _same_values(array, narrowed.cast(array.type)):
            raise self._does_not_fit(array.type)
        return narrowed

    def _does_not_fit(self, source: pa.DataType) -> ColumnError:
        return ColumnError(
            f"column {self.column!r} holds a value of type {source} that does not fit {self.target}: the table was "
            f"rolled back to a schema from before the column became {source}; end the range at a snapshot with the "
            "wider type",
            column=self.column,
        )


def _same_values(one: pa.Array, other: pa.Array) -> bool:
    """True if all are equal, NaN to itself: Arrow rounds floats, turns large ones into infinity and truncates times."""
    differs = pc.not_equal(one, other)
    if pa.types.is_floating(one.type):
        differs = pc.and_(differs, pc.invert(pc.is_nan(one)))
    return not pc.any(differs).as_py()
