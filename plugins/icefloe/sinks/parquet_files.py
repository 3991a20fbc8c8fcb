"""Parquet files of changes: written to local disk, read from a store."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from icefloe.errors import TerminalError, lack_of_memory_named, one_line
from icefloe.sinks.row_groups import GROUP_ROWS
from icefloe.storage.keys import join_url
from icefloe.storage.local_folders import on_local_disk
from icefloe.storage.store import KeyMissingError, Store


def write_parquet_files(
    folder: Path, schema: pa.Schema, groups: Iterator[pa.Table], *, target_file_bytes: int | None
) -> list[Path]:
    """Write row groups to as many files as they need, in their order; no files if there are no groups.

    The same groups give the same bytes, as long as PyArrow stays the same.

    Args:
        folder: an empty local one.
        schema: of the groups.
        groups: none of them empty.
        target_file_bytes: begin another file above this size; None: never.

    Raises:
        TransientError: the local disk is full or fails.
    """
    with on_local_disk(f"cannot keep the changes of a task in {folder} until they are whole"):
        return _write_files(folder, schema, groups, target_file_bytes)


def read_parquet(store: Store, key: str) -> Iterator[pa.RecordBatch]:
    """The rows of one stored file, one row group at a time.

    Raises:
        KeyMissingError: there is no such file.
        TerminalError: it is not a whole Parquet file, or a page does not match its checksum.
        TransientError: the store did not answer.
        MemoryError: there was no memory, or no thread for Arrow.
    """
    with _readable(store, key):
        file = pq.ParquetFile(_StoredFile(store, key), pre_buffer=True, page_checksum_verification=True)
        # In Arrow's threads, the process would die by SIGSEGV if the system refused the second of them: the first goes
        # on in memory that the failed call has freed. A task has one core, too.
        for group in range(file.num_row_groups):
            yield from file.iter_batches(row_groups=[group], use_threads=False)


def parquet_schema(store: Store, key: str) -> pa.Schema:
    """The schema of one stored file; raises as `read_parquet` does."""
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
            f"{url} is damaged: it cannot be read as Parquet; restore it, or deliver its batch again", url=url
        ) from cause


def _write_files(
    folder: Path, schema: pa.Schema, groups: Iterator[pa.Table], target_file_bytes: int | None
) -> list[Path]:
    files: list[Path] = []
    group = next(groups, None)
    while group is not None:
        files.append(folder / f"{len(files)}.parquet")
        with (
            pa.OSFile(str(files[-1]), "wb") as stream,
            pq.ParquetWriter(stream, schema, compression="zstd", write_page_checksum=True) as writer,
        ):
            is_full = False
            while group is not None and not is_full:
                # Pages end by the chunks of a column, which follow from the batches of the task.
                writer.write_table(group.combine_chunks(), row_group_size=GROUP_ROWS)
                is_full = target_file_bytes is not None and stream.tell() >= target_file_bytes
                # The next group is taken before the file is closed: without one, no further file begins, so none is
                # empty. This one is forgotten first: the next one takes as much memory.
                del group
                group = next(groups, None)
    return files


class _StoredFile(io.RawIOBase):
    """A stored file for Parquet's reader: seeks, and reads that become ranged reads of the store."""

    def __init__(self, store: Store, key: str) -> None:
        size_bytes = store.size(key)
        if size_bytes is None:
            raise KeyMissingError.of(store.url, key)
        self._store, self._key, self._size_bytes = store, key, size_bytes
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

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
