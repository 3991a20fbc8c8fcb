from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    DoubleType,
    IcebergType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)

from iceberg.filtered_rows import FILTERS, SCHEMA, Filter, rows
from icefloe.iceberg.files.parquet_file import matching_row_groups
from icefloe.iceberg.filters.row_filter import RowFilter
from icefloe.iceberg.schemas.file_columns import file_columns
from support.tables.written_tables import column, with_id


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> pq.ParquetFile:
    path = tmp_path_factory.mktemp("groups") / "f.parquet"
    pq.write_table(rows().cast(schema_to_pyarrow(SCHEMA)), path, row_group_size=3)
    return pq.ParquetFile(path)


@pytest.fixture(scope="module")
def batch(file: pq.ParquetFile) -> pa.RecordBatch:
    return file.read().combine_chunks().to_batches()[0]


def groups(file: pq.ParquetFile, row_filter: RowFilter) -> list[int]:
    return matching_row_groups(file.metadata, file_columns(file.schema_arrow, None), row_filter)


@settings(max_examples=100, deadline=None)
@given(FILTERS)
def test_no_row_group_with_a_row_that_passes_is_left_out(
    file: pq.ParquetFile, batch: pa.RecordBatch, found: Filter
) -> None:
    row_filter = RowFilter.parse(found.text, SCHEMA, table="db.t")
    kept = set(groups(file, row_filter))
    mask = row_filter.mask(batch)
    for group in set(range(file.num_row_groups)) - kept:
        assert not mask[3 * group : 3 * group + 3].any(), (found.text, group)


def test_row_groups_are_left_out_by_bounds_and_nulls(file: pq.ParquetFile) -> None:
    for text in (
        "id > 100",
        "s = 'ab'",
        "place.in.x = 7",
        "day = '2024-02-29'",
        "not (id < 100)",
        "dec < -5",
        "b = true",
    ):
        assert 0 < len(groups(file, RowFilter.parse(text, SCHEMA, table="db.t"))) < file.num_row_groups, text
    assert groups(file, RowFilter.parse("id = 50", SCHEMA, table="db.t")) == [16]
    assert groups(file, RowFilter.parse("false", SCHEMA, table="db.t")) == []


def groups_of(
    folder: Path, values: pa.Array, kind: IcebergType, text: str, field_id: int = 1, **options: Any
) -> list[int]:
    """The row groups, of one row each, of a file whose only column the table calls ``now``."""
    pq.write_table(column("then", values, field_id), folder / "f.parquet", row_group_size=1, **options)
    schema = Schema(NestedField(1, "now", kind, required=False, initial_default=None))
    return groups(pq.ParquetFile(folder / "f.parquet"), RowFilter.parse(text, schema, table="db.t"))


def test_columns_are_found_by_field_id_and_compared_after_promotion(tmp_path: Path) -> None:
    assert groups_of(tmp_path, pa.array([1, 2, None], pa.int32()), LongType(), "now = 2") == [1]
    assert groups_of(tmp_path, pa.array([0.1, 0.5], pa.float32()), DoubleType(), "now = 0.5") == [1]
    assert groups_of(tmp_path, pa.array(["a", "ü"]), StringType(), "now like 'ü%'") == [1]


def test_years_that_python_does_not_have_are_compared(tmp_path: Path) -> None:
    days = pa.array([-719_163, 19_782, 2_932_897], pa.date32())
    moments = pc.multiply(days.cast(pa.int32()).cast(pa.int64()), 86_400_000_000)
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        zone = "+00:00" if kind.tz else ""
        of_kind = TimestamptzType() if kind.tz else TimestampType()
        assert groups_of(tmp_path, moments.cast(kind), of_kind, f"now > '2024-02-29T00:00:00{zone}'") == [2]
    assert groups_of(tmp_path, days, DateType(), "now = '2024-02-29'") == [1]
    assert groups_of(tmp_path, days, DateType(), "now < '2024-02-29'") == [0]


def test_dates_under_timestamps_prune_nothing(tmp_path: Path) -> None:
    values = pa.array([1, 2], pa.date32())
    assert groups_of(tmp_path, values, TimestampType(), "now = '2024-02-29T00:00:00'") == [0, 1]


def test_nan_is_never_left_out(tmp_path: Path) -> None:
    values = pa.array([float("nan"), 1.0])
    assert 0 in groups_of(tmp_path, values, DoubleType(), "now is nan")
    assert 0 in groups_of(tmp_path, values, DoubleType(), "not (now <= 5.5)")


def test_a_column_that_is_missing_or_without_statistics_prunes_nothing(tmp_path: Path) -> None:
    values = pa.array([1, 2])
    assert groups_of(tmp_path, values, LongType(), "now = 7", field_id=2) == [0, 1]
    assert groups_of(tmp_path, values, LongType(), "now = 7", write_statistics=False) == [0, 1]


def test_a_writer_s_nan_among_the_statistics_prunes_nothing() -> None:
    statistics = SimpleNamespace(has_null_count=False, has_min_max=True, min=float("nan"), max=float("nan"))
    group = SimpleNamespace(column=lambda _: SimpleNamespace(statistics=statistics, num_values=2))
    metadata = SimpleNamespace(num_columns=1, num_row_groups=1, row_group=lambda _: group)
    columns = file_columns(pa.schema([with_id(1, pa.field("now", pa.float64()))]), None)
    row_filter = RowFilter.parse("now > 7", Schema(NestedField(1, "now", DoubleType())), table="db.t")
    assert matching_row_groups(metadata, columns, row_filter) == [0]
