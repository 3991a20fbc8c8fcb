"""The files sink: Parquet parts of a batch and the manifest that says the batch is whole."""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import ClassVar, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ConfigDict

from icefloe.documents import STRICT, Hash128, dump_document, load_document
from icefloe.sinks.sink import BatchSummary, CommitMessage, Sink, Written
from icefloe.storage.probe import probe
from icefloe.storage.store import Store

__all__ = ["FilesSink", "Manifest", "Part", "batch_prefix"]

_ROW_GROUP_ROWS: Final = 1 << 18
_ROW_GROUP_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The changes of one task, in one file or, past ``target_file_bytes``, several."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    names: tuple[str, ...]
    rows: int
    size_bytes: int
    hash_sum: Hash128


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """``_manifest.json``: written last, says the batch is whole, and is what readers trust."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    version: Literal[1] = 1
    format: Literal["parquet"] = "parquet"
    batch: BatchSummary
    parts: tuple[Part, ...]


class FilesSink(Sink):
    """Files under ``<path>/batch=<N>/``; a part's name and rows follow from its task alone.

    A retry or a zombie replaces a part, atomically, by the same rows; files that no manifest names do not count.

    Args:
        store: the sink's path.
        target_file_bytes: begin another file of the same part past this size; None: never.
    """

    def __init__(self, store: Store, *, target_file_bytes: int | None = None) -> None:
        self._store = store
        self._target_file_bytes = target_file_bytes

    def check(self) -> None:
        """Write, read and delete one object under the path."""
        probe(self._store)

    def write(self, *, batch_number: int, number: int, schema: pa.Schema, changes: Iterable[pa.RecordBatch]) -> Written:
        """Write the part to local disk, then put each file under its final name in one atomic step."""
        names, size_bytes = [], 0
        groups = _row_groups(schema, changes)
        with tempfile.TemporaryDirectory(prefix="icefloe-part-") as folder:
            for file_number in count():
                file = Path(folder) / str(file_number)
                rows = self._write_file(file, schema, groups)
                if not rows:
                    break
                names.append(_part_name(number, file_number))
                size_bytes += file.stat().st_size
                self._store.put(f"{batch_prefix(batch_number)}/{names[-1]}", file)
                file.unlink()
        return Written(size_bytes=size_bytes, details={"names": names})

    def commit(self, summary: BatchSummary, messages: Sequence[CommitMessage]) -> None:
        """Write the manifest unless it is there."""
        parts = tuple(
            Part(
                names=tuple(message.details["names"]),
                rows=message.rows,
                size_bytes=message.size_bytes,
                hash_sum=message.hash_sum,
            )
            for message in sorted(messages, key=lambda message: message.number)
            if message.rows
        )
        self._store.create(_manifest_key(summary.batch_number), dump_document(Manifest(batch=summary, parts=parts)))

    def manifest(self, batch_number: int) -> Manifest:
        """The manifest of a committed batch.

        Raises:
            KeyMissingError: the batch is not whole.
        """
        key = _manifest_key(batch_number)
        return load_document(Manifest, self._store.get(key), what=f"{self._store.url}/{key}")

    def read_part(self, batch_number: int, part: Part) -> Iterator[pa.RecordBatch]:
        """The changes of one part, as written."""
        for name in part.names:
            data = self._store.get(f"{batch_prefix(batch_number)}/{name}")
            yield from pq.ParquetFile(pa.BufferReader(data)).iter_batches()

    def _write_file(self, file: Path, schema: pa.Schema, groups: Iterator[pa.Table]) -> int:
        rows = 0
        with file.open("wb") as stream:
            writer = pq.ParquetWriter(stream, schema, compression="zstd")
            for group in groups:
                writer.write_table(group, row_group_size=_ROW_GROUP_ROWS)
                rows += group.num_rows
                if self._target_file_bytes is not None and stream.tell() >= self._target_file_bytes:
                    break
            writer.close()
        return rows


def batch_prefix(batch_number: int) -> str:
    """The folder of a batch.

    >>> batch_prefix(7)
    'batch=7'
    """
    return f"batch={batch_number}"


def _manifest_key(batch_number: int) -> str:
    return f"{batch_prefix(batch_number)}/_manifest.json"


def _part_name(number: int, file_number: int) -> str:
    suffix = f"-{file_number}" if file_number else ""
    return f"part-{number:05d}{suffix}.parquet"


def _row_groups(schema: pa.Schema, changes: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches merged into tables worth a row group each; none is empty."""
    pending: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in changes:
        if batch.num_rows:
            pending.append(batch)
            rows += batch.num_rows
            size_bytes += batch.nbytes
        if rows >= _ROW_GROUP_ROWS or size_bytes >= _ROW_GROUP_BYTES:
            yield pa.Table.from_batches(pending, schema)
            pending, rows, size_bytes = [], 0, 0
    if pending:
        yield pa.Table.from_batches(pending, schema)
