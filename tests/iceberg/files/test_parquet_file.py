import io
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
from icefloe.iceberg.files.parquet_file import ParquetRows, matching_row_groups
from icefloe.iceberg.filters.row_filter import RowFilter
from icefloe.iceberg.schemas.file_columns import file_columns
from support.tables.written_tables import column, with_id


def opened(rows: pa.Table, *, batch_rows: int = 100, dictionary_columns: bool = False, **written: Any) -> ParquetRows:
    buffer = io.BytesIO()
    pq.write_table(rows, buffer, **written)
    return ParquetRows.open(buffer, batch_rows=batch_rows, pre_buffer=False, dictionary_columns=dictionary_columns)


@pytest.mark.parametrize(
    ("group", "runs"),
    [
        (1000, [(0, 1000, [0])]),
        (400, [(0, 400, [0]), (400, 400, [1]), (800, 200, [2])]),
        (60, [(n * 120, 120, [2 * n, 2 * n + 1]) for n in range(8)] + [(960, 40, [16])]),
    ],
)
def test_small_row_groups_are_read_together(group: int, runs: list[tuple[int, int, list[int]]]) -> None:
    assert list(opened(pa.table({"a": range(1000)}), row_group_size=group).group_runs()) == runs


def test_row_groups_that_are_left_out_count_apart_without_groups() -> None:
    rows = opened(pa.table({"a": range(420)}), row_group_size=60)
    assert list(rows.group_runs({0, 3, 4})) == [(0, 60, []), (60, 120, [1, 2]), (180, 120, []), (300, 120, [5, 6])]
    assert [first for first, _, groups in rows.group_runs(range(7)) if not groups] == [0, 120, 240, 360]
    assert list(rows.group_runs({6}))[-1] == (360, 60, [])


@pytest.mark.parametrize("names", [["s", "s.a", "b"], ["b", "x.y", "x"], ["a", "a", "b"]])
def test_columns_with_ambiguous_names_are_all_read(names: list[str]) -> None:
    struct = pa.array([{"a": 0}])
    columns = [struct if name == "s" else pa.array([at]) for at, name in enumerate(names)]
    rows = opened(pa.Table.from_arrays(columns, names=names))
    selected, places = rows.selection([1])
    batch = next(rows.batches([0], selected))
    assert batch.column(places[1]).to_pylist() == [1]


def test_offsets_are_64_bits_where_the_file_does_not_say_otherwise() -> None:
    table = pa.table({"s": ["a"], "b": [b"a"], "l": [[1]]})
    schema = opened(table, store_schema=False).schema
    assert [field.type for field in schema][:2] == [pa.large_string(), pa.large_binary()]
    assert pa.types.is_large_list(schema.field("l").type)


def test_int96_timestamps_reach_the_year_9999() -> None:
    instants = pa.array([253402300799999999, -62135596800000000], pa.timestamp("us"))
    rows = opened(pa.table({"t": instants}), use_deprecated_int96_timestamps=True, store_schema=False)
    assert next(rows.batches([0], None))["t"].view(pa.int64()).to_pylist() == instants.view(pa.int64()).to_pylist()


def test_only_text_that_the_writer_encoded_throughout_stays_encoded() -> None:
    few = ["few", "distinct", "values"] * 1000
    many = [f"value number {n}" for n in range(3000)]
    nested = [{"s": "a"}] * 3000
    table = pa.table({"few": few, "many": many, "number": range(3000), "nested": nested, "list": [["a"]] * 3000})
    rows = opened(table, dictionary_columns=True, dictionary_pagesize_limit=1024, store_schema=False)
    assert [field.name for field in rows.schema if pa.types.is_dictionary(field.type)] == ["few"]
    assert rows.schema.field("nested").type == pa.struct([("s", pa.string())])


@pytest.mark.slow
def test_batches_of_large_rows_have_few_of_them() -> None:
    rows = opened(pa.table({"s": [f"{n:04}" * 2**18 for n in range(80)]}), batch_rows=1000)
    batches = list(rows.batches([0], None))
    assert [batch.num_rows for batch in batches] == [15] * 5 + [5]
    assert pa.Table.from_batches(batches)["s"].to_pylist() == [f"{n:04}" * 2**18 for n in range(80)]


class _CountedReads(io.BytesIO):
    """A file that keeps the size of its largest read."""

    largest = 0

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.largest = max(self.largest, len(data))
        return data


@pytest.mark.parametrize("pre_buffer", [False, True])
@pytest.mark.parametrize("dictionary_columns", [False, True])
def test_a_row_group_that_is_too_large_for_memory_is_read_in_pieces(
    monkeypatch: pytest.MonkeyPatch, pre_buffer: bool, dictionary_columns: bool
) -> None:
    rows = pa.table({"a": range(60_000), "few": ["x", "y", "z"] * 20_000})
    source = _CountedReads()
    pq.write_table(rows, source, use_dictionary=["few"], compression="none", data_page_size=20_000)
    for limit in ("_MOST_READ_BYTES", "_MOST_FETCHED_BYTES"):
        monkeypatch.setattr(f"icefloe.iceberg.files.parquet_file.{limit}", 200_000)
    source.largest = 0
    opened = ParquetRows.open(source, batch_rows=1000, pre_buffer=pre_buffer, dictionary_columns=dictionary_columns)
    found = pa.Table.from_batches(opened.batches([0], None))
    assert found.cast(rows.schema) == rows
    assert source.largest < 150_000  # of 480,000 in the largest column


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


def test_dates_under_timestamps_and_columns_without_statistics_prune_nothing(tmp_path: Path) -> None:
    values = pa.array([1, 2], pa.date32())
    assert groups_of(tmp_path, values, TimestampType(), "now = '2024-02-29T00:00:00'") == [0, 1]
    for unknown in ({"field_id": 2}, {"write_statistics": False}):
        assert groups_of(tmp_path, pa.array([1, 2]), LongType(), "now = 7", **unknown) == [0, 1]


def test_nan_is_never_left_out(tmp_path: Path) -> None:
    values = pa.array([float("nan"), 1.0])
    assert 0 in groups_of(tmp_path, values, DoubleType(), "now is nan")
    assert 0 in groups_of(tmp_path, values, DoubleType(), "not (now <= 5.5)")


def test_a_writer_s_nan_among_the_statistics_prunes_nothing() -> None:
    statistics = SimpleNamespace(has_null_count=False, has_min_max=True, min=float("nan"), max=float("nan"))
    group = SimpleNamespace(column=lambda _: SimpleNamespace(statistics=statistics, num_values=2))
    metadata = SimpleNamespace(num_columns=1, num_row_groups=1, row_group=lambda _: group)
    columns = file_columns(pa.schema([with_id(1, pa.field("now", pa.float64()))]), None)
    row_filter = RowFilter.parse("now > 7", Schema(NestedField(1, "now", DoubleType())), table="db.t")
    assert matching_row_groups(metadata, columns, row_filter) == [0]
