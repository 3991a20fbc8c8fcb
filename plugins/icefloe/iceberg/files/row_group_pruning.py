"""Row groups of a Parquet file that a row filter can leave undecoded, by the statistics in the footer."""

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.expressions.literals import literal
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from icefloe.iceberg.filters.column_range import ColumnRange, range_condition
from icefloe.iceberg.filters.row_filter import RowFilter
from icefloe.iceberg.projection.file_columns import FileColumn, leaves


def matching_row_groups(metadata: pq.FileMetaData, columns: Sequence[FileColumn], row_filter: RowFilter) -> list[int]:
    """The row groups that may hold a row that passes, in order; a column without usable statistics rules out none.

    Args:
        metadata: pyarrow's, of the file.
        columns: of the file, all of them, with their field ids.
        row_filter: bound to the schema in which rows are read.
    """
    may_match = range_condition(row_filter.expression)
    found_leaves = list(leaves(columns))
    if len(found_leaves) != metadata.num_columns:
        return list(range(metadata.num_row_groups))
    places = {leaf.field_id: place for place, leaf in enumerate(found_leaves)}
    found = [(field, places[field.field_id]) for field in row_filter.fields if field.field_id in places]
    return [
        group
        for group in range(metadata.num_row_groups)
        if may_match(
            {
                field.field_id: _range(field, found_leaves[place], metadata.row_group(group).column(place), row_filter)
                for field, place in found
            }
        )
    ]


def _range(field: NestedField, leaf: FileColumn, chunk: pq.ColumnChunkMetaData, row_filter: RowFilter) -> ColumnRange:
    statistics = chunk.statistics
    if statistics is None:
        return ColumnRange()
    nulls = statistics.null_count if statistics.has_null_count else None
    value = _reader_of(field.field_type, leaf.type) if statistics.has_min_max else None
    return ColumnRange(
        lower=None if value is None else value(statistics, "min"),
        upper=None if value is None else value(statistics, "max"),
        may_hold_nulls=nulls != 0 or len(row_filter.paths[field.field_id]) > 1,
        may_hold_values=nulls is None or nulls < chunk.num_values,
    )


def _reader_of(field_type: IcebergType, written: pa.DataType) -> Callable[[pq.Statistics, str], object] | None:
    """Reader of a minimum or maximum; None if the file's type does not compare with the column's type."""
    types = pa.types
    if isinstance(field_type, StringType):
        return _raw
    fits = (
        (IntegerType | LongType, types.is_integer(written)),
        (FloatType | DoubleType, types.is_floating(written)),
        (DecimalType, types.is_decimal(written)),
        (BooleanType, types.is_boolean(written)),
    )
    numbered = (
        (DateType, types.is_date32(written)),
        (TimestampType | TimestamptzType, types.is_timestamp(written) and written.unit == "us"),
        (TimeType, types.is_time64(written) and written.unit == "us"),
    )
    if any(is_same and isinstance(field_type, kinds) for kinds, is_same in numbered):
        return _raw
    return _plain if any(is_same and isinstance(field_type, kinds) for kinds, is_same in fits) else None


def _raw(statistics: pq.Statistics, bound: str) -> object:
    """Text as bytes; dates and times as numbers, which have the years that Python has not."""
    return getattr(statistics, f"{bound}_raw")


def _plain(statistics: pq.Statistics, bound: str) -> object:
    value = getattr(statistics, bound)
    return None if value != value else literal(value).value
