import io
import random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from icefloe.iceberg.files.parquet_file import ParquetRows
from icefloe.iceberg.files.parquet_sizes import largest_row_bytes


def row_bytes(rows: pa.Table, dictionary: Any = None, **written: Any) -> float:
    buffer = io.BytesIO()
    pq.write_table(rows, buffer, **written)
    return largest_row_bytes(pq.ParquetFile(buffer).metadata, dictionary)


def test_fixed_width_rows_are_as_large_as_their_columns() -> None:
    rows = pa.table({f"c{n}": pa.array(range(10_000)) for n in range(5)})
    assert 40 <= row_bytes(rows, use_dictionary=False) < 42


def test_short_values_in_a_dictionary_are_measured_by_the_bounds_in_the_footer() -> None:
    values = [chr(97 + n % 20) * 900 for n in range(5_000)]
    assert 900 <= row_bytes(pa.table({"s": values})) < 905


def test_long_values_in_a_dictionary_are_looked_up_in_it() -> None:
    rows = pa.table({"id": range(1_000), "json": ["x" * 100_000, "y" * 9_000] * 500})
    asked = []

    def dictionary(group: int, column: str) -> pa.Array:
        asked.append((group, column))
        return pa.array(["x" * 100_000, "y" * 9_000])

    assert 100_000 <= row_bytes(rows, dictionary) < 100_020
    assert asked == [(0, "json")]


def test_a_dictionary_of_many_mebibytes_is_not_decoded_to_be_measured() -> None:
    values = [random.Random(n).randbytes(2**20) for n in range(10)]
    assert 2**20 <= row_bytes(pa.table({"b": values})) < 2**20 + 100


def test_the_reader_finds_the_dictionary_itself() -> None:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"a.b": ["x" * 2**20] * 200, "json": ["y" * 2**20] * 200, "n": range(200)}), buffer)
    for dictionary_columns in (False, True):
        opened = ParquetRows.open(buffer, batch_rows=131_072, pre_buffer=False, dictionary_columns=dictionary_columns)
        assert opened.batch_rows <= 64
        assert sum(batch.num_rows for batch in opened.batches([0], None)) == 200


def test_columns_of_nulls_and_files_without_rows_have_small_rows() -> None:
    assert row_bytes(pa.table({"s": pa.nulls(100, pa.string())})) < 10
    assert row_bytes(pa.table({"s": pa.array([], pa.string())})) < 100
