"""Rows that are too large for a task are refused with the memory that they need, and no other rows are."""

import pyarrow as pa
import pytest

from icefloe.batch.rows.row_reader import RowLimit
from icefloe.errors import TerminalError

MEMORY_BYTES = 64 << 20
LARGEST_BYTES = (MEMORY_BYTES + (256 << 20)) // 20


def batch(*sizes: int, kind: pa.DataType | None = None) -> pa.RecordBatch:
    texts = pa.array(["x" * size for size in sizes], pa.string())
    column = texts if kind is None else texts.cast(kind)
    return pa.RecordBatch.from_arrays([pa.array(range(len(sizes))), column], ["id", "text"])


def check(rows: pa.RecordBatch, memory_bytes: int = MEMORY_BYTES) -> None:
    RowLimit(memory_bytes=memory_bytes).check(rows, place="data file s3://lake/a.parquet of table db.t")


@pytest.mark.parametrize("kind", [None, pa.large_binary(), pa.dictionary(pa.int32(), pa.string())])
def test_a_row_that_is_too_large_is_refused_with_the_memory_that_it_needs(kind: pa.DataType | None) -> None:
    rows = batch(1, 2, LARGEST_BYTES + 1, 3, kind=kind)
    with pytest.raises(TerminalError, match=r"a\.parquet of table db\.t has a row of 16\.0 MiB.* 128MiB"):
        check(rows)
    check(rows, 128 << 20)


def test_a_row_of_lists_counts_with_all_that_they_hold() -> None:
    numbers = pa.array([[1], list(range(LARGEST_BYTES // 8 + 8))], pa.list_(pa.int64()))
    with pytest.raises(TerminalError):
        check(pa.RecordBatch.from_arrays([numbers], ["numbers"]))


@pytest.mark.parametrize("kind", [None, pa.dictionary(pa.int32(), pa.string())])
def test_rows_that_are_large_only_together_pass(kind: pa.DataType | None) -> None:
    rows = batch(*range(LARGEST_BYTES - 200, LARGEST_BYTES - 100, 50), kind=kind)
    assert rows.nbytes > LARGEST_BYTES
    check(rows)
