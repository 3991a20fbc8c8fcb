"""An Avro data file, opened: Arrow batches of its own columns, in bounded memory."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

import pyarrow as pa
from pyiceberg.io import InputStream

from icefloe.iceberg.files.avro_container import AvroContainer, AvroDecoder, AvroSchema, Unbacked, decoding
from icefloe.iceberg.files.avro_values import record_fields
from icefloe.iceberg.files.opened_file import BATCH_BYTES, selected_columns

_ENCODED_BYTES: Final = BATCH_BYTES >> 1
"""Encoded bytes that fill a batch: values are Python objects until then, several times as large."""
_ELEMENTS: Final = 1 << 20
"""Elements of arrays and maps that fill a batch: they may have fewer bytes than elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroRows:
    """The rows of one file."""

    container: AvroContainer
    schema: pa.Schema
    batch_rows: int

    @classmethod
    def open(cls, source: InputStream, *, batch_rows: int) -> Self:
        """Read the header, and the places of the blocks."""
        container = AvroContainer.open(source)
        with decoding():
            schema = pa.schema([field for field, _ in record_fields(container.schema)])
        return cls(container=container, schema=schema, batch_rows=batch_rows)

    @property
    def num_rows(self) -> int:
        """The rows of all blocks."""
        return sum(block.num_rows for block in self.container.blocks)

    def group_runs(self) -> Iterator[tuple[int, int, list[int]]]:
        """(first row, rows, blocks) read together: one block, or several small ones."""
        first = rows = 0
        numbers: list[int] = []
        for number, block in enumerate(self.container.blocks):
            numbers.append(number)
            rows += block.num_rows
            if rows >= self.batch_rows:
                yield first, rows, numbers
                first, rows, numbers = first + rows, 0, []
        if rows:
            yield first, rows, numbers

    def dictionary_bytes(self, columns: Collection[str] | None, *, most: int) -> int:
        """0: Avro has no dictionaries."""
        del columns, most
        return 0

    def batches(self, groups: Sequence[int], columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """The rows of consecutive blocks."""
        with decoding():
            batch = _Batch(self.container.schema, columns, self.container.unbacked)
            for number in groups:
                block = self.container.blocks[number]
                yield from batch.add(self.container.content(block), block.num_rows, self.batch_rows)
            if batch.num_rows:
                yield batch.finish()

    def selection(self, positions: Collection[int]) -> tuple[list[str] | None, Mapping[int, int]]:
        """All columns are decoded: only decoding finds the end of a value."""
        return selected_columns(self.schema.names, positions)


class _Batch:
    def __init__(self, schema: AvroSchema, columns: Sequence[str] | None, unbacked: Unbacked) -> None:
        self._unbacked = unbacked
        fields = record_fields(schema)
        wanted = [columns is None or field.name in columns for field, _ in fields]
        self._read = [
            values.append if is_wanted else values.skip for (_, values), is_wanted in zip(fields, wanted, strict=True)
        ]
        self._fields = [field for field, is_wanted in zip(fields, wanted, strict=True) if is_wanted]
        self._encoded_bytes = self._elements = 0
        self.num_rows = 0

    def add(self, content: bytes, num_rows: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yields each full batch."""
        decoder, start = AvroDecoder(content, self._unbacked), 0
        for _ in decoder.rows(num_rows):  # Avro is read value by value; avro_values has the measurement
            for read in self._read:
                read(decoder)
            decoder.check()
            self.num_rows += 1
            self._elements += decoder.elements
            stop = decoder.tell()
            is_large = self._encoded_bytes + stop - start >= _ENCODED_BYTES or self._elements >= _ELEMENTS
            if self.num_rows >= batch_rows or is_large:
                yield self.finish()
                start = stop
        if not decoder.is_at_end:
            raise ValueError("a block does not end after its last row")
        self._encoded_bytes += decoder.tell() - start

    def finish(self) -> pa.RecordBatch:
        num_rows, self.num_rows = self.num_rows, 0
        self._encoded_bytes = self._elements = 0
        schema = pa.schema([field for field, _ in self._fields])
        if not self._fields:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * num_rows, pa.struct([])))
        return pa.RecordBatch.from_arrays([values.finish() for _, values in self._fields], schema=schema)
