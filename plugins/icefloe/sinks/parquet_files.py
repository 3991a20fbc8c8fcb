"""Row groups of changes, and Parquet files of them."""

import io
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.errors import TerminalError, lack_of_memory_named, one_line
from icefloe.sinks.json_texts import storage_type
from icefloe.storage.local_folders import on_local_disk
from icefloe.storage.store import KeyMissingError, Store, join_url

_OFFSET_BYTES = 8
GROUP_ROWS: Final = 1 << 18
GROUP_BYTES: Final = 64 << 20
_SAMPLED_GROUPS: Final = 4


def row_bytes(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """The bytes of each row, at least 1; the same for equal rows in any batch, unlike shares of ``batch.nbytes``.

    Bits of validity do not count.

    >>> row_bytes(pa.record_batch({"id": [1, 2, 3], "text": ["a", None, "bcd"]})).tolist()
    [17, 16, 19]
    """
    sizes = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        sizes += _value_bytes(column)
    return np.maximum(sizes, 1)


def _value_bytes(values: pa.Array) -> NDArray[np.int64]:
    kind = values.type
    if isinstance(values, pa.ExtensionArray):
        return _value_bytes(values.storage)
    if pa.types.is_null(kind):
        return np.zeros(len(values), np.int64)
    if pa.types.is_struct(kind):
        fields = (_value_bytes(field) for field in values.flatten())
        return np.sum([np.zeros(len(values), np.int64), *fields], axis=0)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        # A slice has the elements of all rows, and the offsets of its own.
        offsets = values.offsets.to_numpy().astype(np.int64)
        first, stop = int(offsets[0]), int(offsets[-1])
        sums = np.concatenate(([0], np.cumsum(_value_bytes(values.values.slice(first, stop - first)))))
        sizes = np.diff(sums[offsets - first])
        # A null may have elements that nobody sees.
        return np.where(values.is_valid().to_numpy(zero_copy_only=False), sizes, 0) + _OFFSET_BYTES
    try:
        bits = kind.bit_width
    except ValueError:  # it has none: strings and bytes
        lengths = pc.fill_null(pc.binary_length(values), 0)
        return lengths.cast(pa.int64()).to_numpy() + _OFFSET_BYTES
    return np.full(len(values), -(-bits // 8), np.int64)


def row_groups(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, max_rows: int = GROUP_ROWS, max_bytes: int = GROUP_BYTES
) -> Iterator[pa.Table]:
    """The rows of all batches in order, in tables of one row group each; the same rows are cut at the same places."""
    # Every table but the last is as large as a bound allows; none is empty. One group and one batch are held at a time.
    # Batches of 5 rows each, at most 7 rows in a group:   1 1 1 1 1 2 2 | 2 2 2 3 3 3 3 | 3
    pending: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        start, stops = 0, np.cumsum(row_bytes(batch))
        while start < batch.num_rows:
            before = int(stops[start - 1]) if start else 0
            fitting = int(np.searchsorted(stops, before + max_bytes - size_bytes, side="right")) - start
            room = min(max_rows - rows, fitting)
            if room < 1 and pending:
                yield pa.Table.from_batches(pending, schema)
                pending, rows, size_bytes = [], 0, 0
                continue
            # At least one row: a row larger than the bound is a group of its own.
            piece = batch.slice(start, max(1, room))
            pending.append(piece)
            start += piece.num_rows
            rows, size_bytes = rows + piece.num_rows, size_bytes + int(stops[start - 1]) - before
    if pending:
        yield pa.Table.from_batches(pending, schema)


def row_slices(batch: pa.RecordBatch, *, max_rows: int, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """The rows of a batch in slices of bounded size."""
    rows = max(1, min(max_rows, batch.num_rows * max_bytes // max(batch.nbytes, 1)))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with bytes in place of uuids, also nested ones."""
    return pa.schema([field.with_type(storage_type(field.type)) for field in schema])


def write_parquet_files(
    folder: Path,
    schema: pa.Schema,
    groups: Iterator[pa.Table],
    *,
    target_file_bytes: int | None,
    for_spark: bool = False,
) -> list[Path]:
    """Write row groups in order to as many files of an empty folder as they need; none without groups.

    Args:
        for_spark: uuids are bytes in Parquet, because Spark refuses files that have them; PyArrow gives them back.
    """
    written = plain_schema(schema) if for_spark else schema
    is_plain = written == schema
    # The same groups give the same bytes with the same PyArrow. Above the target size another file begins; None: never.
    with on_local_disk(f"cannot keep the changes of a task in {folder} until they are whole"):
        files: list[Path] = []
        group = next(groups, None)
        while group is not None:
            files.append(folder / f"{len(files)}.parquet")
            with (
                pa.OSFile(str(files[-1]), "wb") as stream,
                pq.ParquetWriter(
                    stream, written, compression="zstd", write_page_checksum=True, store_schema=is_plain
                ) as writer,
            ):
                if not is_plain:
                    writer.add_key_value_metadata({"ARROW:schema": b64encode(schema.serialize()).decode()})
                is_full = False
                while group is not None and not is_full:
                    # Pages end by the chunks of a column, which follow from the batches of the task.
                    rows = group.combine_chunks()
                    writer.write_table(rows if is_plain else rows.cast(written), row_group_size=GROUP_ROWS)
                    is_full = target_file_bytes is not None and stream.tell() >= target_file_bytes
                    # The next group is taken before the file is closed: without one, no further file begins, so none is
                    # empty. This one is forgotten first: the next one takes as much memory.
                    del group, rows
                    group = next(groups, None)
        return files


def read_parquet(store: Store, key: str, *, sampled: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of one stored file, one row group at a time; KeyMissingError without it.

    Args:
        sampled: dotted names of columns that alone are read, of a few row groups; None: everything is read.
    """
    with _readable(store, key):
        file = pq.ParquetFile(_StoredFile(store, key), pre_buffer=True, page_checksum_verification=True)
        # In Arrow's threads, the process would die by SIGSEGV if the system refused the second of them: the first goes
        # on in memory that the failed call has freed. A task has one core, too.
        step = 1 if sampled is None else max(1, file.num_row_groups // _SAMPLED_GROUPS)
        for group in range(0, file.num_row_groups, step):
            yield from file.iter_batches(row_groups=[group], columns=sampled, use_threads=False)


def parquet_schema(store: Store, key: str) -> pa.Schema:
    """The schema of one stored file, with the errors of `read_parquet`."""
    with _readable(store, key):
        return pq.ParquetFile(_StoredFile(store, key)).schema_arrow


@contextmanager
def _readable(store: Store, key: str) -> Iterator[None]:
    try:
        with lack_of_memory_named():
            yield
    except MemoryError:
        raise  # Arrow's own is an ArrowException too, and says nothing of the file
    except (pa.ArrowException, OSError) as cause:
        if type(cause) is pa.ArrowException:
            # Of 20,000 damages none gave this type: it is Arrow's "unknown error", for a thread that it cannot start.
            raise MemoryError(one_line(cause)) from cause
        url = join_url(store.url, key)
        raise TerminalError(
            f"{url} is damaged: it cannot be read as Parquet; restore it, or deliver its batch again"
        ) from cause


class _StoredFile(io.RawIOBase):
    def __init__(self, store: Store, key: str) -> None:
        size_bytes = store.size(key)
        if size_bytes is None:
            raise KeyMissingError.of(store.url, key)
        self._store, self._key, self._size_bytes = store, key, size_bytes
        self._position = 0

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size_bytes}[whence]
        self._position = origin + offset
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        wanted = self._size_bytes if size is None or size < 0 else self._position + size
        stop = min(wanted, self._size_bytes)
        [data] = self._store.get_ranges(self._key, [(self._position, max(self._position, stop))])
        self._position += len(data)
        return data


def holds_same_rows(store: Store, key: str, file: Path) -> bool:
    """True if the stored file is whole and has the same rows in order; holds one row group."""
    try:
        with on_local_disk("the changes of a task cannot be read back"):
            made = pq.ParquetFile(file)
            if not parquet_schema(store, key).equals(made.schema_arrow):
                return False
            # Each file has row groups of its own size: cut again, equal rows are in equal groups.
            both = (read_parquet(store, key), made.iter_batches(use_threads=False))
            groups = (row_groups(made.schema_arrow, batches) for batches in both)
            return all(_are_equal(*pair) for pair in zip_longest(*groups))
    except TerminalError:
        # Damaged, or deleted between two looks, as by an operator who ends the batch at this moment.
        return False


def _are_equal(one: pa.Table | None, other: pa.Table | None) -> bool:
    if one is None or other is None or one.num_rows != other.num_rows:
        return False
    # NaN does not equal NaN in Arrow. Everywhere else rows are equal by their hashes, for which it does.
    key = RowHashes.new_key()
    return one.equals(other) or RowHashes.of_batch(one, key=key).equals(RowHashes.of_batch(other, key=key))
