"""Partition values: their types, and their comparison with literals and bounds."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyiceberg.expressions.literals import literal
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, PrimitiveType, TimestampType, TimestamptzType

from icefloe.iceberg.data_file import Constant, constant_from_json
from icefloe.iceberg.filters.column_range import ColumnRange, comparable
from icefloe.iceberg.schemas.covering_schema import widest_types

__all__ = ["partition_range"]


def partition_types(
    specs: Mapping[int, PartitionSpec], schemas: Iterable[Schema]
) -> Mapping[int, Sequence[PrimitiveType | None]]:
    """The types of partition values by spec id, from the widest type of each source column; None: not known.

    A table that replaces another may keep its specs and field ids. If it has a source column in another type, the type
    of its values is not known.
    """
    sources = widest_types(schemas)

    def of(spec: PartitionSpec) -> list[PrimitiveType | None]:
        results = (
            field.transform.result_type(sources[field.source_id]) if field.source_id in sources else None
            for field in spec.fields
        )
        return [found if isinstance(found, PrimitiveType) else None for found in results]

    return {spec_id: of(spec) for spec_id, spec in specs.items()}


def partition_range(kind: object, value: Constant) -> ColumnRange:
    """The range of a column or partition field that has one value in every row.

    >>> partition_range(DateType(), "1970-01-08").lower, partition_range(DateType(), None).may_hold_values
    (7, False)
    """
    if value is None:
        return ColumnRange(may_hold_values=False)
    known = _comparable_value(kind, value)
    if known is None:
        return ColumnRange(may_hold_nulls=False)
    return ColumnRange(lower=known, upper=known, may_hold_nulls=False, is_one_value=True)


def _comparable_value(kind: Any, value: Constant) -> Any:
    """A value that compares; None for NaN, and for a date from before a promotion."""
    if isinstance(kind, DateType) and isinstance(value, int):
        return value
    if isinstance(kind, TimestampType | TimestamptzType) and "T" not in str(value):
        return None
    plain = constant_from_json(kind, value)
    return None if plain != plain else comparable(literal(plain).value)
