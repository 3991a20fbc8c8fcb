"""Sizes of rows and dictionaries, found before they are decoded."""

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import StringType

from icefloe.api import read_changes
from icefloe.batch.rows import row_reader
from icefloe.batch.rows.row_reader import RowLimit
from icefloe.errors import TerminalError
from icefloe.iceberg.files import parquet_file
from icefloe.iceberg.files.parquet_file import ParquetRows, dictionary_bytes, largest_row_bytes
from support.tables.written_tables import create_table, optional


def row_bytes(rows: pa.Table, dictionary: Any = None, **written: Any) -> float:
    buffer = io.BytesIO()
    pq.write_table(rows, buffer, **written)
    return largest_row_bytes(pq.ParquetFile(buffer).metadata, dictionary)


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


def test_the_reader_finds_the_dictionary_itself() -> None:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"a.b": ["x" * 2**20] * 200, "json": ["y" * 2**20] * 200, "n": range(200)}), buffer)
    for dictionary_columns in (False, True):
        opened = ParquetRows.open(buffer, batch_rows=131_072, pre_buffer=False, dictionary_columns=dictionary_columns)
        assert opened.batch_rows <= 64
        assert sum(batch.num_rows for batch in opened.batches([0], None)) == 200


WORDS, LETTERS = 1_000, 40
"""Each word takes its letters and a length of 4 bytes in the dictionary."""
DICTIONARY_BYTES = WORDS * (LETTERS + 4)
NEVER = 1


class CountedBytes(io.BytesIO):
    """A file that counts how often it is read."""

    reads = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self.reads += 1
        return super().read(size)


def words(first: str, rows: int = 5 * WORDS) -> list[str]:
    return [f"{first}{number % WORDS:039}" for number in range(rows)]


def measured(rows: pa.Table, columns: list[str] | None, most: int, **written: Any) -> tuple[int, int]:
    """The bytes of the dictionaries, and the number of headers that were read for them."""
    file = CountedBytes()
    pq.write_table(rows, file, **{"dictionary_pagesize_limit": 1 << 20, **written})
    metadata = pq.read_metadata(io.BytesIO(file.getvalue()))
    return dictionary_bytes(file, metadata, columns, most=most), file.reads


@pytest.mark.parametrize("compression", ["none", "zstd", "snappy"])
def test_a_dictionary_has_the_size_that_it_has_when_it_is_decompressed(compression: str) -> None:
    assert measured(pa.table({"a": words("a")}), None, NEVER, compression=compression) == (DICTIONARY_BYTES, 1)


def test_dictionaries_of_a_row_group_are_decoded_together_and_those_of_several_groups_are_not() -> None:
    rows = pa.table({"a": words("a"), "b": words("b"), "id": range(5 * WORDS)})
    of_each = {"use_dictionary": ["a", "b"]}
    assert measured(rows, None, NEVER, **of_each) == (2 * DICTIONARY_BYTES, 2)
    assert measured(rows, ["b", "id"], NEVER, **of_each) == (DICTIONARY_BYTES, 1)
    assert measured(rows, None, NEVER, row_group_size=WORDS, **of_each) == (2 * DICTIONARY_BYTES, 10)


def test_no_header_is_read_of_chunks_that_are_small_enough() -> None:
    small, large = pa.table({"a": words("a")}), pa.table({"a": words("a"), "b": words("b")})
    size_bytes, reads = measured(small, None, 2 * DICTIONARY_BYTES)
    assert (size_bytes <= 2 * DICTIONARY_BYTES, reads) == (True, 0)
    # One header of the two shows that both fit.
    plain = pa.table({"a": words("a"), "b": [f"{number:099}" for number in range(5 * WORDS)]})
    size_bytes, reads = measured(plain, None, 8 * DICTIONARY_BYTES, dictionary_pagesize_limit=1_000)
    assert (size_bytes <= 8 * DICTIONARY_BYTES, reads) == (True, 1)
    assert measured(large, None, DICTIONARY_BYTES) == (2 * DICTIONARY_BYTES, 2)


def test_a_header_that_is_none_is_left_to_the_reader_of_the_page() -> None:
    file = io.BytesIO()
    pq.write_table(pa.table({"a": words("a")}), file)
    metadata = pq.read_metadata(file)
    for damage in (b"", b"\x15", b"\x15\xff\xff", b"\x00" * 40):
        assert dictionary_bytes(io.BytesIO(b"PAR1" + damage), metadata, None, most=NEVER) == 0


def test_each_task_looks_at_dictionaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create_table(tmp_path, Schema(optional("word", StringType())))
    table.append(pa.table({"word": words("a")}))
    assert read_changes(table).read_all().num_rows == 5 * WORDS
    monkeypatch.setattr(row_reader, "_DICTIONARY_COPIES", 1e6)
    with pytest.raises(TerminalError):
        read_changes(table).read_all()


def test_a_large_dictionary_is_not_decoded_to_measure_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    rows = pa.table({"a": words("a")})
    pq.write_table(rows, file, dictionary_pagesize_limit=1 << 20, write_statistics=False)
    options = {"batch_rows": 100, "pre_buffer": False, "dictionary_columns": False}
    assert ParquetRows.open(file, **options).footer.row_bytes == LETTERS
    monkeypatch.setattr(parquet_file, "_MOST_MEASURED_BYTES", DICTIONARY_BYTES - 1)
    assert ParquetRows.open(file, **options).footer.row_bytes > LETTERS


def test_the_sentence_names_memory_with_which_the_file_is_read() -> None:
    with pytest.raises(TerminalError, match=r"of 484\.0 MiB in one row group, which need .*: 896MiB"):
        RowLimit(memory_bytes=64 << 20).check_dictionaries(lambda _: 484 << 20, "data file a of table t")
    RowLimit(memory_bytes=896 << 20).check_dictionaries(lambda _: 484 << 20, "data file a of table t")
