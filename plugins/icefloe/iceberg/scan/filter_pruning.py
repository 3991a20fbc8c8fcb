"""Data files that a row filter leaves unread, by their manifest entries."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, BooleanExpression, BoundPredicate, LiteralPredicate
from pyiceberg.expressions.literals import AboveMax, BelowMin
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    DayTransform,
    HourTransform,
    IdentityTransform,
    TimeTransform,
    Transform,
    TruncateTransform,
)
from pyiceberg.types import (
    DateType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
)

from icefloe.iceberg.data_file import Constant
from icefloe.iceberg.filters.column_range import ColumnRange, RangeCondition, range_condition
from icefloe.iceberg.filters.filter_binding import fold
from icefloe.iceberg.filters.row_filter import RowFilter
from icefloe.iceberg.manifests.manifest_reader import DataEntry
from icefloe.iceberg.manifests.manifest_values import decoded_bound, partition_range

__all__ = ["FilterPruning"]

_NAME: Final = "value"
_FIRST_WRAPPED_HOUR: Final = (1 << 32) - (1 << 63) // 3_600_000_000
"""From here on, a number of hours may be one of more than 32 bits, of a year beyond 200,000, that began again."""


class FilterPruning:
    """Rules out files without a passing row; never a file that has one.

    By partition values, of each file's spec, and the bounds and null counts of the manifest. Missing values, or values
    of a type that does not compare, rule out nothing.
    """

    def __init__(self, row_filter: RowFilter, specs: Mapping[int, PartitionSpec]) -> None:
        self._filter = row_filter
        self._specs = specs
        self._of_columns = range_condition(row_filter.expression)
        self._of_partition: dict[int, RangeCondition] = {}
        self._partitions: dict[object, bool] = {}

    def may_match(self, entry: DataEntry) -> bool:
        """True if some of its rows may pass."""
        known = self._partitions.get(entry.partition)
        if known is None:
            known = self._partitions[entry.partition] = self._partition_may_match(*entry.partition)
        return known and self._of_columns(dict(self._column_ranges(entry)))

    def _partition_may_match(self, spec_id: int, values: tuple[Constant, ...]) -> bool:
        spec = self._specs[spec_id]
        if len(values) != len(spec.fields):
            return True
        condition = self._of_partition.get(spec_id)
        if condition is None:
            condition = self._of_partition[spec_id] = range_condition(_projected(self._filter.expression, spec))
        fields = {field.field_id: field for field in self._filter.fields}
        ranges = {
            part.field_id: _part_range(part, fields[part.source_id].field_type, value)
            for part, value in zip(spec.fields, values, strict=True)
            if part.source_id in fields
        }
        return condition(ranges)

    def _column_ranges(self, entry: DataEntry) -> Iterator[tuple[int, ColumnRange]]:
        for field in self._filter.fields:
            if isinstance(field.field_type, PrimitiveType):
                yield field.field_id, self._column_range(entry, field, field.field_type)

    def _column_range(self, entry: DataEntry, field: NestedField, field_type: PrimitiveType) -> ColumnRange:
        field_id = field.field_id
        constants = entry.data_file.constants
        if str(field_id) in constants:
            return partition_range(field_type, constants[str(field_id)])
        lower, upper = entry.lower_bounds.get(field_id), entry.upper_bounds.get(field_id)
        nulls = entry.null_value_counts.get(field_id)
        return ColumnRange(
            lower=None if lower is None else decoded_bound(field_type, lower),
            upper=None if upper is None else decoded_bound(field_type, upper),
            # Writers may or may not count the nulls of a struct as nulls of the fields nested in it.
            may_hold_nulls=nulls != 0 or len(self._filter.paths[field_id]) > 1,
            may_hold_values=nulls is None or nulls < entry.data_file.record_count,
        )


def _projected(expression: BooleanExpression, spec: PartitionSpec) -> BooleanExpression:
    """Identity fields are checked as columns."""

    def projected(predicate: BoundPredicate) -> BooleanExpression:
        source = predicate.term.ref().field
        result: BooleanExpression = AlwaysTrue()
        for part in spec.fields_by_source_id(source.field_id):
            if not isinstance(part.transform, IdentityTransform):
                result &= _of_part(part, predicate, _result_type(part, source))
        return result

    return fold(expression, projected, lambda value: AlwaysTrue() if value else AlwaysFalse())


def _of_part(part: PartitionField, predicate: BoundPredicate, kind: IcebergType) -> BooleanExpression:
    try:
        projected: Any = part.transform.project(_NAME, predicate)
    except OverflowError:
        # PyIceberg asks Python for the year after 9999-12-31, and for the one before 0001-01-01.
        projected = None
    if projected is None:
        return AlwaysTrue()
    is_beyond = isinstance(projected, LiteralPredicate) and isinstance(projected.literal.to(kind), AboveMax | BelowMin)
    bound: BooleanExpression = projected.bind(Schema(NestedField(part.field_id, _NAME, kind)))
    return AlwaysTrue() if is_beyond else bound


def _part_range(part: PartitionField, source: IcebergType, value: Constant) -> ColumnRange:
    kind = part.transform.result_type(source)
    if (
        isinstance(kind, IntegerType | LongType)
        and isinstance(value, int)
        and _may_have_overflown(value, part.transform)
    ):
        return ColumnRange(may_hold_nulls=False)
    found = partition_range(kind, value)
    if isinstance(found.lower, int) and found.lower <= 0 and _may_be_rounded_up(part.transform, source):
        return replace(found, lower=found.lower - 1, is_one_value=False)
    return found


def _may_be_rounded_up(transform: Transform[Any, Any], source: IcebergType) -> bool:
    """Iceberg up to 0.10 rounded times before 1970 towards 1970."""
    is_exact = isinstance(transform, DayTransform) and isinstance(source, DateType)
    return isinstance(transform, TimeTransform) and not is_exact


def _may_have_overflown(value: int, transform: Transform[Any, Any]) -> bool:
    """True if the true number may have been too far away to fit."""
    if isinstance(transform, HourTransform):
        return abs(value) >= _FIRST_WRAPPED_HOUR
    # One of the smallest numbers may have been truncated to one of the largest; a long may have been an int then.
    width = transform.width if isinstance(transform, TruncateTransform) else 0
    return any(largest - width < value <= largest for largest in (IntegerType.max, LongType.max))


def _result_type(part: PartitionField, source: NestedField) -> IcebergType:
    return part.transform.result_type(source.field_type)
