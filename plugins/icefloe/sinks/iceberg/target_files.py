"""Data files of a target, written within a bound of memory, and deleted if no commit names them."""

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import ArrowProjectionVisitor, _dataframe_to_data_files, schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.table import Transaction
from pyiceberg.table.metadata import TableMetadata

_CHUNK_BYTES: Final = 128 * 2**20
"""Arrow bytes that become one file, or one for each partition: Parquet of them is 3 to 10 times smaller."""


def _keep_nulls(project: Callable[..., pa.Array | None]) -> Callable[..., pa.Array | None]:
    """PyIceberg's projection makes empty lists and maps of null ones if they hold structs."""

    def projected(visitor: object, kind: object, array: pa.Array | None, *inner: pa.Array | None) -> Any:
        found = project(visitor, kind, array, *inner)
        if found is None or array is None or not array.null_count:
            return found
        # Not by a kernel, which drops the field ids inside of the type.
        offsets = pa.array(found.offsets.to_numpy(), found.offsets.type)
        inner = (found.keys, found.items) if isinstance(found, pa.MapArray) else (found.values,)
        return type(found).from_arrays(offsets, *inner, type=found.type, mask=array.is_null())

    return projected


ArrowProjectionVisitor.list = _keep_nulls(ArrowProjectionVisitor.list)  # type: ignore[method-assign]
ArrowProjectionVisitor.map = _keep_nulls(ArrowProjectionVisitor.map)  # type: ignore[method-assign]


class WrittenFiles:
    """The files of one delivery. Those of its rows are written again only if the target's layout has changed."""

    def __init__(self) -> None:
        self._layout: object = None
        self._files: list[DataFile] = []
        self._others: dict[str, int] = {}
        self._io: FileIO | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.file_size_in_bytes for file in self._files) + sum(self._others.values())

    def of(self, transaction: Transaction, rows: Callable[[], Iterable[pa.RecordBatch]]) -> Sequence[DataFile]:
        """The files of rows, by the schema and the partitions that a transaction has by now."""
        metadata = transaction.table_metadata
        layout = (metadata.schema(), metadata.spec(), metadata.location)
        self._io = transaction._table.io  # noqa: SLF001
        if self._layout != layout:
            self.discard()
            for chunk in chunks(rows(), metadata):
                self._files += self.write(transaction, chunk)
            self._layout = layout
        return self._files

    def write(self, transaction: Transaction, rows: pa.Table) -> list[DataFile]:
        """Files of some rows."""
        metadata = transaction.table_metadata
        return [*_dataframe_to_data_files(metadata, _partitioned(rows, metadata), transaction._table.io, uuid.uuid4())]  # noqa: SLF001

    def anew(self, transaction: Transaction, rows: Iterable[pa.RecordBatch]) -> list[DataFile]:
        """Files of rows that depend on the state of the target, so that they belong to one try."""
        self._io = transaction._table.io  # noqa: SLF001
        written = list[DataFile]()
        for chunk in chunks(rows, transaction.table_metadata):
            new = self.write(transaction, chunk)
            for file in new:
                self.note(file.file_path, file.file_size_in_bytes)
            written += new
        return written

    def note(self, path: str, size_bytes: int = 0) -> None:
        """A file that belongs to one try, such as one of deletes; once more when its size is known."""
        self._others[path] = size_bytes

    def discard_notes(self) -> None:
        """Delete the files of a try that was overtaken."""
        self._delete(self._others)
        self._others = {}

    def discard(self) -> None:
        """Delete what no commit names."""
        self._layout = None
        self._delete([file.file_path for file in self._files])
        self._files = []
        self.discard_notes()

    def _delete(self, paths: Iterable[str]) -> None:
        if (io := self._io) is not None:
            for path in paths:
                with suppress(OSError):
                    io.delete(path)


def _partitioned(rows: pa.Table, metadata: TableMetadata) -> pa.Table:
    """Rows with nulls for columns of the partitions that they lack."""
    schema = metadata.schema()
    names = {schema.find_column_name(each.source_id) for each in metadata.spec().fields}
    for each in schema_to_pyarrow(schema, include_field_ids=False):
        if each.name in names and each.name not in rows.column_names:
            rows = rows.append_column(each, pa.nulls(len(rows), each.type))
    return rows


def chunks(rows: Iterable[pa.RecordBatch], metadata: TableMetadata) -> Iterator[pa.Table]:
    """Rows in pieces that become files of one row group each."""
    # PyIceberg takes the bounds of a file from row groups that have some, and leaves out those of long values.
    most_rows = int(metadata.properties.get("write.parquet.row-group-limit", 2**20))
    held, held_bytes, held_rows = list[pa.RecordBatch](), 0, 0
    for whole in rows:
        for start in range(0, whole.num_rows, most_rows):
            batch = whole.slice(start, most_rows)
            if held and (held_bytes >= _CHUNK_BYTES or held_rows + batch.num_rows > most_rows):
                yield pa.Table.from_batches(held)
                held, held_bytes, held_rows = [], 0, 0
            # Of a column that an older file lacks, PyIceberg reads nulls of the large type.
            held.append(batch.cast(held[0].schema) if held else batch)
            held_bytes += batch.nbytes
            held_rows += batch.num_rows
    if held:
        yield pa.Table.from_batches(held)
