"""An Avro data file, opened: Arrow batches of its own columns, in bounded memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Self

import pyarrow as pa
from pyiceberg.io import InputStream

from icefloe.iceberg.files.avro_container import AvroContainer, AvroDecoder, decoding
from icefloe.iceberg.files.avro_types import AvroType, row_type
from icefloe.iceberg.files.opened_file import BATCH_BYTES, runs_of_groups

_ENCODED_BYTES: Final = BATCH_BYTES >> 1
_VALUES: Final = 1 << 20
"""Encoded bytes, and values, that fill a batch: values are Python objects until then, several times as large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroRows:
    """The rows of one file."""

    container: AvroContainer
    row: AvroType
    batch_rows: int

    @classmethod
    def open(cls, source: InputStream, *, batch_rows: int) -> Self:
        """Read the header, and the places of the blocks."""
        container = AvroContainer.open(source)
        with decoding():
            return cls(container=container, row=row_type(container.schema), batch_rows=batch_rows)

    @property
    def schema(self) -> pa.Schema:
        """The file's columns, field ids in their metadata."""
        return pa.schema(list(self.row.arrow))

    @property
    def num_rows(self) -> int:
        """The rows of all blocks."""
        return sum(block.num_rows for block in self.container.blocks)

    def group_runs(self) -> Iterator[tuple[int, int, list[int]]]:
        """(first row, rows, blocks) read together: one block, or several small ones."""
        counts = ((number, block.num_rows) for number, block in enumerate(self.container.blocks))
        return runs_of_groups(counts, self.batch_rows)

    def batches(self, groups: Sequence[int], columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """The rows of consecutive blocks."""
        with decoding():
            batch = _Batch(self.row, columns)
            for number in groups:
                block = self.container.blocks[number]
                yield from batch.add(self.container.content(block), block.num_rows, self.batch_rows)
            if batch.num_rows:
                yield batch.finish()


class _Batch:
    def __init__(self, row: AvroType, columns: Sequence[str] | None) -> None:
        self._width = row.width
        self._fields = [field for field in row.arrow if columns is None or field.name in columns]
        self._values: dict[str, list[object]] = {field.name: [] for field in self._fields}
        self._columns = [
            (part.read, self._values[field.name].append if field in self._fields else None)
            for field, part in zip(row.arrow, row.parts, strict=True)
        ]
        self._encoded_bytes = self._num_values = self.num_rows = 0

    def add(self, content: bytes, num_rows: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yields each full batch."""
        decoder, start = AvroDecoder(content), 0
        for _ in decoder.rows(num_rows, self._append):  # Avro is read value by value; avro_types has the measurement
            self.num_rows += 1
            self._num_values += self._width + decoder.num_elements
            stop = decoder.tell()
            is_large = self._encoded_bytes + stop - start >= _ENCODED_BYTES or self._num_values >= _VALUES
            if self.num_rows >= batch_rows or is_large:
                yield self.finish()
                start = stop
        self._encoded_bytes += decoder.tell() - start

    def _append(self, decoder: AvroDecoder) -> None:
        for read, append in self._columns:
            value = read(decoder)
            if append is not None:
                append(value)

    def finish(self) -> pa.RecordBatch:
        num_rows = self.num_rows
        self._encoded_bytes = self._num_values = self.num_rows = 0
        if not self._fields:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * num_rows, pa.struct([])))
        arrays = [pa.array(self._values[field.name], field.type) for field in self._fields]
        for values in self._values.values():
            values.clear()
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(self._fields))
