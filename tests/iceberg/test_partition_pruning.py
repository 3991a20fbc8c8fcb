"""Partitions rule files out by the transforms' own word, also those that PyIceberg does not write."""

from dataclasses import replace
from functools import cache
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.expressions.literals import literal
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import (
    IntegerType,
    LongType,
    UUIDType,
)

from iceberg.filtered_files import described
from iceberg.filtered_rows import FILTERS, SCHEMA, Filter, rows
from icefloe.iceberg.data_file import Constant, constant_to_json
from icefloe.iceberg.filters.row_filter import RowFilter
from icefloe.iceberg.manifests.manifest_reader import DataEntry
from icefloe.iceberg.scan.filter_pruning import FilterPruning
from icefloe.iceberg.schemas.table_schema import TableSchema

pytestmark = pytest.mark.slow

PARTITIONS: tuple[tuple[str, Transform[Any, Any]], ...] = (
    ("f", IdentityTransform()),
    ("d", IdentityTransform()),
    ("u", IdentityTransform()),
    ("u", BucketTransform(2)),
    ("place.in.x", IdentityTransform()),
    ("place.in.x", BucketTransform(2)),
    ("place.zip", TruncateTransform(1)),
    ("t", IdentityTransform()),
    ("b", IdentityTransform()),
    ("s", TruncateTransform(2)),
    ("tz", YearTransform()),
    ("at", HourTransform()),
    ("day", DayTransform()),
    ("dec", TruncateTransform(50)),
    ("i", TruncateTransform(10)),
    ("l", TruncateTransform(1000)),
)
Files = list[tuple[DataEntry, list[pa.RecordBatch]]]


@cache
def partitions(column: str, transform: Transform[Any, Any]) -> tuple[PartitionSpec, Files]:
    """A file for each value of one partition field, by the transform's own word."""
    field = SCHEMA.find_field(column)
    spec = PartitionSpec(PartitionField(field.field_id, 1000, transform, "part"), spec_id=3)
    batch = rows().cast(TableSchema.of(SCHEMA).arrow).combine_chunks().to_batches()[0]
    kind = transform.result_type(field.field_type)
    by_value: dict[Constant, list[int]] = {}
    for row, value in enumerate(values_of(batch, column)):
        internal = value if value is None or value != value else literal(value).to(field.field_type).value
        partition = transform.transform(field.field_type)(internal)
        by_value.setdefault(None if partition is None else constant_to_json(kind, written(kind, partition)), []).append(
            row
        )
    is_identity = isinstance(transform, IdentityTransform)
    return spec, [
        (
            replace(described(constants={str(field.field_id): value} if is_identity else {}), partition=(3, (value,))),
            [batch.take(numbers)],
        )
        for value, numbers in by_value.items()
    ]


def written(kind: Any, value: Any) -> Any:
    """A partition value as a manifest has it; whole numbers overflow as in Java."""
    if isinstance(kind, IntegerType | LongType) and value is not None and value < kind.min:
        return value + 2 * (kind.max + 1)
    return UUID(bytes=value) if isinstance(kind, UUIDType) and value is not None else value


def values_of(batch: pa.RecordBatch, column: str) -> list[Any]:
    top, *nested = column.split(".")
    return (pc.struct_field(batch.column(top), nested) if nested else batch.column(top)).to_pylist()


@settings(max_examples=10, deadline=None)
@given(found=st.lists(FILTERS, min_size=10, max_size=10))
@pytest.mark.parametrize(("column", "transform"), PARTITIONS)
def test_no_partition_with_a_row_that_passes_is_left_out(
    column: str, transform: Transform[Any, Any], found: list[Filter]
) -> None:
    spec, files = partitions(column, transform)
    for text in [one.text for one in found]:
        row_filter = RowFilter.parse(text, SCHEMA, table="db.t")
        pruning = FilterPruning(row_filter, {3: spec})
        for data_entry, (batch,) in files:
            assert pruning.may_match(data_entry) or not row_filter.mask(batch).any(), (text, data_entry.partition)


@pytest.mark.parametrize(("column", "transform"), PARTITIONS)
def test_a_partition_of_nulls_is_distinguished_from_the_others(column: str, transform: Transform[Any, Any]) -> None:
    spec, files = partitions(column, transform)
    for text, is_null in ((f"{column} is null", True), (f"{column} is not null", False)):
        pruning = FilterPruning(RowFilter.parse(text, SCHEMA, table="db.t"), {3: spec})
        for data_entry, _ in files:
            assert pruning.may_match(data_entry) is ((data_entry.partition[1] == (None,)) is is_null)


def test_the_smallest_number_is_found_where_truncating_it_overflows() -> None:
    for column in ("i", "l"):
        text = f"{column} = {SCHEMA.find_type(column).min}"
        spec, files = partitions(column, TruncateTransform(1000))
        pruning = FilterPruning(RowFilter.parse(text, SCHEMA, table="db.t"), {3: spec})
        assert any(pruning.may_match(data_entry) for data_entry, _ in files)
