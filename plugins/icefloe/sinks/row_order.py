"""The order of changes by columns: keys of bytes, and a sort within a bound of memory.

A key has all that decides on the place of a row. Its bytes compare as rows do, on every machine:

    null             00
    any other value  01, then
      number, time   8 bytes, big-endian, the sign bit flipped; of a negative float, all bits
      decimal        the same with 16 bytes
      text, bytes    UTF-8 or the bytes, with 00 ff for 00, and 00 00 at the end

So nulls come first, NaN comes last, 0.0 equals -0.0, and texts compare by code point.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.changes.columns import ChangeColumns, ChangeType
from icefloe.errors import TerminalError
from icefloe.shuffle.block_file import SpilledRows
from icefloe.sinks.batch_to_deliver import ProvenBatch, StagedPart, column_type, named_columns
from icefloe.sinks.events import event_rows

_BINARY: Final = pa.large_binary()
_KEY: Final = pa.field("_key", _BINARY)
_END: Final = pa.scalar(b"", _BINARY)
_RANKS: Final = np.array([{ChangeType.DELETE: 0, ChangeType.INSERT: 2}.get(kind, 1) for kind in ChangeType], np.int64)
"""Both rows of an update have one rank: they are staged in their order."""
_SIGN: Final = np.uint64(1 << 63)
_BYTES_PER_ROW: Final = 64
_LARGEST_PIECE_BYTES: Final = 1 << 30
_MOST_SPLITTERS: Final = 31
_SAMPLED_KEYS: Final = 1 << 14
_SAMPLED_OF_PART: Final = 1 << 10
_SAMPLED_BYTES: Final = 16 << 20
_ROWS_AT_ONCE: Final = 1 << 14
Read = Callable[[], Iterable[pa.RecordBatch]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOrder:
    """The order of changes by columns; equal ones keep the order in which they come.

    Attributes:
        columns: dotted names.
        keeps_updates: as in `Sink`.
        replays: True if both rows of an update may be far apart: all removed rows of a step come before all others.
    """

    columns: tuple[str, ...]
    keeps_updates: bool = False
    replays: bool = False

    @classmethod
    def of(cls, batch: ProvenBatch, columns: tuple[str, ...], *, keeps_updates: bool = False) -> Self:
        """The order of a batch by columns, then by identity, step, and deletes before updates before inserts.

        Raises:
            TerminalError: a column is missing, or has parts.
        """
        for name in columns:
            with suppress(KeyError):
                if not pa.types.is_nested(column_type(batch.given_schema, name)):
                    continue
            raise TerminalError(
                f"sink.order_by or partition_by names column {name}, but the changes of batch {batch.batch_number} "
                "have no such column of a primitive type: correct it, or add it to columns",
                key="sink.order_by",
            )
        return cls(columns=(*columns, *batch.identity, ChangeColumns.ORDINAL), keeps_updates=keeps_updates)

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """The schema of rows with their keys in the last column."""
        return rows.append(_KEY)

    def keyed(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows with their keys."""
        if self.keeps_updates:
            yield from self._keyed_events(batches)
            return
        for rows in filter(len, batches):
            ranks = ChangeColumns.weights(rows) if self.replays else _RANKS[ChangeColumns.types(rows)]
            values = [*named_columns(rows, self.columns), pa.array(ranks)]
            keys = pc.binary_join_element_wise(*map(_key_bytes, values), _END)
            yield pa.RecordBatch.from_arrays([*rows.columns, keys], schema=self.schema(rows.schema))

    def _keyed_events(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        alone = replace(self, keeps_updates=False)
        for events in event_rows(batches):
            [rows] = alone.keyed([events.rows])
            places, is_update = np.arange(len(rows)), (events.befores >= 0) & (events.afters >= 0)
            places[events.befores[is_update]] = events.afters[is_update]
            yield rows.set_column(rows.num_columns - 1, _KEY, rows.column(-1).take(pa.array(places)))

    def sample(self, batches: Iterable[pa.RecordBatch]) -> pa.Array:
        """The keys of some rows."""
        sample = KeySample(_SAMPLED_OF_PART)
        for rows in self.keyed(batches):
            sample.add(rows.column(-1))
        return sample.keys

    def bounds(self, samples: Iterable[pa.Array], ranges: int) -> tuple[bytes, ...]:
        """The first keys of all ranges but the first one, so that each has about as many of these keys."""
        sample = KeySample()
        for keys in samples:
            sample.add(keys)
        return tuple(sample.splitters(ranges - 1).to_pylist())

    def places(self, rows: pa.RecordBatch, bounds: Sequence[bytes]) -> NDArray[np.int32]:
        """The number of the range of each row with its key."""
        return _places(rows, pa.array(bounds, _BINARY), "right")

    def sorted_part(self, part: StagedPart, schema: pa.Schema, *, memory_bytes: int) -> StagedPart:
        """The part in order."""

        def read() -> Iterator[pa.RecordBatch]:
            return self.sorted(lambda: self.keyed(part.read()), schema, memory_bytes=memory_bytes)

        return replace(part, read=read, urls=())

    def sorted(self, read: Read, schema: pa.Schema, *, memory_bytes: int) -> Iterator[pa.RecordBatch]:
        """Rows in order, without their keys.

        Args:
            read: returns rows with their keys; each call reads them again.
            schema: of the rows without their keys.
            memory_bytes: of the task.
        """
        for rows in _sorted(read, self.schema(schema), memory_bytes=memory_bytes):
            yield pa.RecordBatch.from_arrays(rows.columns[:-1], schema=schema)


def _sorted(read: Read, schema: pa.Schema, *, memory_bytes: int) -> Iterator[pa.RecordBatch]:
    #   too large for memory, by keys    d b d d a e d c
    #   splitters b d                    a | b | c | d d d d | e     a part of a splitter has one key, others are sorted
    piece_bytes = min(memory_bytes // 4, _LARGEST_PIECE_BYTES)
    kept, size_bytes, sample = list[pa.RecordBatch](), 0, KeySample()
    for rows in read():
        sample.add(rows.column(-1))
        size_bytes += rows.nbytes + rows.num_rows * _BYTES_PER_ROW
        kept = [*kept, rows] if size_bytes <= piece_bytes else []
    if size_bytes <= piece_bytes:
        table = pa.Table.from_batches(kept, schema).combine_chunks()
        kept.clear()
        yield from table.take(pc.sort_indices(table.column(-1))).to_batches(max_chunksize=_ROWS_AT_ONCE)
        return
    splitters = sample.splitters(min(_MOST_SPLITTERS, 2 * size_bytes // piece_bytes))
    with SpilledRows(schema, 2 * len(splitters) + 1, memory_bytes=memory_bytes // 8) as spilled:
        for rows in read():
            spilled.add(rows, _places(rows, splitters, "left") + _places(rows, splitters, "right"))
        spilled.flush()
        for part in np.flatnonzero(spilled.rows).tolist():
            found = partial(spilled.batches, part)
            yield from found() if part % 2 else _sorted(found, schema, memory_bytes=memory_bytes)


def _places(rows: pa.RecordBatch, bounds: pa.Array, side: str) -> NDArray[np.int32]:
    """The number of bounds at or below each key; with the side ``left``, of those below it."""
    return pc.search_sorted(bounds, rows.column(-1), side=side).to_numpy(zero_copy_only=False).astype(np.int32)


class KeySample:
    """Keys at equal distances, more than half of ``most`` if there are as many; the same for the same rows."""

    def __init__(self, most: int = _SAMPLED_KEYS) -> None:
        self.keys = pa.array([], _BINARY)
        self._most, self._step, self._seen = most, 1, 0

    def add(self, keys: pa.Array) -> None:
        """Take keys in their order."""
        first, self._seen = -self._seen % self._step, self._seen + len(keys)
        self.keys = pa.concat_arrays([self.keys, keys[first :: self._step]])
        while len(self.keys) > self._most or (self.keys.nbytes > _SAMPLED_BYTES and len(self.keys) > 1):
            self.keys, self._step = self.keys[::2], self._step * 2

    def splitters(self, most: int) -> pa.Array:
        """Different keys, ascending, that divide rows into about equal shares."""
        ordered = self.keys.take(pc.sort_indices(self.keys))
        places = np.unique(len(ordered) * np.arange(1, most + 1) // (most + 1))
        return pc.unique(ordered.take(pa.array(places))) if len(ordered) else ordered


def _key_bytes(values: pa.Array) -> pa.Array:
    values = values.storage if isinstance(values, pa.ExtensionArray) else values
    kind = values.type
    if pa.types.is_null(kind):
        return pa.repeat(pa.scalar(b"\x00", _BINARY), len(values))
    if pa.types.is_decimal(kind):
        wide = values.cast(pa.decimal128(38, kind.scale))
        halves = np.frombuffer(wide.buffers()[1], "<u8").reshape(-1, 2)
        found = _big_endian(halves[wide.offset : wide.offset + len(wide), ::-1])
    elif pa.types.is_primitive(kind):
        found = _big_endian(_words(values).reshape(-1, 1))
    else:
        plain = values.cast(pa.binary()) if pa.types.is_fixed_size_binary(kind) else values
        escaped = pc.replace_substring(plain.cast(_BINARY), b"\x00", b"\x00\xff")
        found = pc.binary_join_element_wise(escaped, pa.scalar(b"\x00\x00", _BINARY), _END)
    marked = pc.binary_join_element_wise(pa.scalar(b"\x01", _BINARY), found, _END)
    return pc.if_else(values.is_valid(), marked, pa.scalar(b"\x00", _BINARY))


def _words(values: pa.Array) -> NDArray[np.uint64]:
    """64 bits of each number, to be compared as a signed one."""
    kind = values.type
    if pa.types.is_floating(kind):
        # A sum with 0.0 is never -0.0. Every NaN gets the same bits.
        floats = pc.fill_null(pc.add(values.cast(pa.float64()), 0.0), 0.0).to_numpy(zero_copy_only=False)
        bits = np.where(np.isnan(floats), np.nan, floats).view(np.int64)
        return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits).view(np.uint64)
    whole = values.cast(pa.int32()) if kind.bit_width == 32 and pa.types.is_temporal(kind) else values
    return pc.fill_null(whole.cast(pa.int64()), 0).to_numpy(zero_copy_only=False).view(np.uint64)


def _big_endian(words: NDArray[np.uint64]) -> pa.Array:
    """A row of words, the highest first, as bytes of which the first bit is flipped."""
    flipped = words.astype(">u8")
    flipped[:, 0] ^= _SIGN
    width = 8 * words.shape[1]
    data = pa.py_buffer(np.ascontiguousarray(flipped).tobytes())
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(words), [None, data]).cast(_BINARY)
