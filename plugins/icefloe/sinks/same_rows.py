"""Checks whether a stored Parquet file holds the rows of a local one, however they were cut and encoded."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from icefloe.changes.row_hash.row_hashes import RowHashes, row_hashes_of_batch
from icefloe.errors import TerminalError
from icefloe.sinks.parquet_files import read_parquet
from icefloe.storage.local_folders import on_local_disk
from icefloe.storage.store import Store

_COMPARED_BYTES: Final = 8 * 2**20


def holds_same_rows(store: Store, key: str, file: Path) -> bool:
    """True if the file under a key is whole and has the same rows in the same order; holds one row group of each.

    Raises:
        TransientError: the store did not answer, or the local disk fails.
    """
    try:
        if store.size(key) == file.stat().st_size and _have_equal_bytes(store, key, file):
            return True
        with on_local_disk("the changes of a task cannot be read back"):
            return _are_equal(read_parquet(store, key), pq.ParquetFile(file).iter_batches(use_threads=False))
    except TerminalError:
        # Damaged, or deleted between two looks, as by an operator who ends the batch at this moment.
        return False


def _have_equal_bytes(store: Store, key: str, file: Path) -> bool:
    with file.open("rb") as stream:
        while ours := stream.read(_COMPARED_BYTES):
            stop = stream.tell()
            [theirs] = store.get_ranges(key, [(stop - len(ours), stop)])
            if theirs != ours:
                return False
    return True


def _are_equal(ones: Iterator[pa.RecordBatch], others: Iterator[pa.RecordBatch]) -> bool:
    # Each file has row groups of its own size, so slices of equal length are compared, not groups.
    one, other = next(ones, None), next(others, None)
    while one is not None and other is not None:
        rows = min(one.num_rows, other.num_rows)
        if not _have_equal_rows(one.slice(0, rows), other.slice(0, rows)):
            return False
        one = one.slice(rows) if rows < one.num_rows else next(ones, None)
        other = other.slice(rows) if rows < other.num_rows else next(others, None)
    return one is None and other is None


def _have_equal_rows(one: pa.RecordBatch, other: pa.RecordBatch) -> bool:
    # NaN does not equal NaN in Arrow. Everywhere else rows are equal by their hashes, for which it does.
    if one.equals(other) or not one.schema.equals(other.schema):
        return one.schema.equals(other.schema)
    key = RowHashes.new_key()
    return row_hashes_of_batch(one, key=key).equals(row_hashes_of_batch(other, key=key))
