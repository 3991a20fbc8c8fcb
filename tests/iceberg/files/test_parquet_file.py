import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icefloe.iceberg.files.opened_file import selected_columns
from icefloe.iceberg.files.parquet_file import ParquetRows


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


@pytest.mark.parametrize("names", [["s", "s.a", "b"], ["b", "x.y", "x"], ["a", "a", "b"]])
def test_columns_with_ambiguous_names_are_all_read(names: list[str]) -> None:
    struct = pa.array([{"a": 0}])
    columns = [struct if name == "s" else pa.array([at]) for at, name in enumerate(names)]
    rows = opened(pa.Table.from_arrays(columns, names=names))
    selected, places = selected_columns(names, [1], dots_are_paths=True)
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
