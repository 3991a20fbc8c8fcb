"""The footer of a Parquet file, checked before Arrow looks at its column chunks.

Arrow meets a fault in a chunk's metadata with a C++ exception that ends the process: a damaged or hostile footer would
take its worker along, try after try. A plain footer with encrypted columns does so too.

Source: https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
"""

import os
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import InputStream

from icefloe.iceberg.unreadable import EncryptedRowsError, UndecodableError

_LIKELY_BYTES: Final = 64 << 10
"""Most footers are no longer, so that they come with one read."""
_TRAILER_BYTES: Final = 8
_ENCRYPTED_FOOTER: Final = b"PARE"
_ROW_GROUPS, _ALGORITHM, _COLUMNS, _METADATA, _ENCRYPTED, _TYPE, _STATISTICS, _SIZES = 4, 8, 1, 3, 8, 1, 12, 16
_BOUNDS: Final = (1, 2, 5, 6)
_TEXT_BYTES, _REPETITIONS, _DEFINITIONS = 1, 2, 3
"""Field ids of FileMetaData (two), RowGroup, ColumnChunk (two), ColumnMetaData (three), Statistics, SizeStatistics."""
_TYPES: Final = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_BOUND_BYTES: Final = (1, 4, 8, 12, 4, 8, 0, 0)
"""The physical types by their number, and the bytes of a value of each."""
_LAST_FIELD: Final = 0x7FFF
_NUMBERS: Final = frozenset({4, 5, 6})
_TRUE, _FALSE, _BYTE, _INT, _LONG, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12
"""Types of Thrift's compact protocol; the others are numbers of variable length."""
_FIXED_BYTES: Final = {_TRUE: 0, _FALSE: 0, _BYTE: 1, _DOUBLE: 8}


def read_footer(source: InputStream) -> pq.FileMetaData:
    """A footer whose column chunks are safe to look at."""
    size = source.seek(0, os.SEEK_END)
    tail = _tail(source, size, _LIKELY_BYTES)
    if tail.endswith(_ENCRYPTED_FOOTER):
        raise EncryptedRowsError
    length = int.from_bytes(tail[-_TRAILER_BYTES:-4], "little") + _TRAILER_BYTES
    if len(tail) < length <= size:
        tail = _tail(source, size, length)
    metadata = pq.read_metadata(pa.BufferReader(tail) if length <= len(tail) else source)
    try:
        footer = CompactReader(tail, len(tail) - length).struct(_FOOTER)
    except (IndexError, RecursionError):
        _unusual()
    if _ALGORITHM in footer:
        raise EncryptedRowsError
    leaves = [metadata.schema.column(number) for number in range(metadata.num_columns)]
    for group in footer.get(_ROW_GROUPS, ()):
        chunks = group.get(_COLUMNS, ())
        if len(chunks) != len(leaves):
            raise UndecodableError(f"a row group of its footer has {len(chunks)} column chunks, not {len(leaves)}")
        for leaf, chunk in zip(leaves, chunks, strict=True):
            _check(leaf, chunk)
    return metadata


def _tail(source: InputStream, size: int, length: int) -> bytes:
    source.seek(max(0, size - length))
    return source.read(length)


def _check(leaf: pq.ColumnSchema, chunk: dict[int, Any]) -> None:
    if _ENCRYPTED in chunk:
        raise EncryptedRowsError
    metadata, number = chunk.get(_METADATA, {}), _TYPES.index(leaf.physical_type)
    bounds, sizes = metadata.get(_STATISTICS, {}).values(), metadata.get(_SIZES, {})
    is_text, is_fixed = leaf.physical_type == "BYTE_ARRAY", leaf.physical_type == "FIXED_LEN_BYTE_ARRAY"
    least = leaf.length if is_fixed else _BOUND_BYTES[number]
    levels = ((_REPETITIONS, leaf.max_repetition_level), (_DEFINITIONS, leaf.max_definition_level))
    fits = (
        metadata.get(_TYPE) == number
        and all(size >= least for size in bounds)
        and all(len(sizes.get(field, ())) in (0, most + 1) for field, most in levels)
        and (is_text or _TEXT_BYTES not in sizes)
    )
    if not fits:
        raise UndecodableError(
            f"the type, a bound or a level histogram of a column chunk of {leaf.path} does not fit its column"
        )


_SIZE: Final = {_TEXT_BYTES: _LONG, _REPETITIONS: [_LONG], _DEFINITIONS: [_LONG]}
_CHUNK: Final = {
    _METADATA: {_TYPE: _INT, _STATISTICS: dict.fromkeys(_BOUNDS, _BINARY), _SIZES: _SIZE},
    _ENCRYPTED: {},
}
_FOOTER: Final = {_ROW_GROUPS: [{_COLUMNS: [_CHUNK]}], _ALGORITHM: {}}


def _unusual() -> NoReturn:
    raise UndecodableError("its footer is written in a form that no writer of Parquet uses")


class CompactReader:
    """A reader of Thrift's compact protocol; refuses forms that Arrow may read otherwise, such as a repeated field."""

    def __init__(self, data: bytes, place: int = 0) -> None:
        self._data = data
        self._place = place

    def struct(self, wanted: dict[int, Any]) -> dict[int, Any]:
        """The wanted fields of the struct here; ends at the byte after it."""
        found: dict[int, Any] = {}
        field = 0
        data, place = self._data, self._place
        # Few fields are wanted, and most of the others are numbers and short texts: those are passed over here, because
        # a call for each took half of the time of reading a small file.
        while head := data[place]:
            place += 1
            kind, step = head & 0x0F, head >> 4
            if step and kind in _NUMBERS and field + step not in wanted:
                field += step
                while data[place] & 0x80:
                    place += 1
                place += 1
            elif step and kind == _BINARY and field + step not in wanted and data[place] < 0x80:
                field += step
                place += 1 + data[place]
            else:
                self._place = place
                before, field = field, field + step if step else self.number()
                if field <= before:
                    _unusual()
                if field in wanted:
                    found[field] = self._value(kind, wanted[field])
                else:
                    self._skip(kind)
                place = self._place
        if field > _LAST_FIELD:
            _unusual()
        self._place = place + 1
        return found

    def _value(self, kind: int, wanted: Any) -> Any:
        if kind != (_STRUCT if isinstance(wanted, dict) else _LIST if isinstance(wanted, list) else wanted):
            _unusual()
        if kind == _STRUCT:
            return self.struct(wanted)
        if kind == _LIST:
            count, of = self._list()
            return [self._value(of, wanted[0]) for _ in range(count)]
        return self._bytes() if kind == _BINARY else self.number()

    def _skip(self, kind: int) -> None:
        if kind in _FIXED_BYTES:
            self._place += _FIXED_BYTES[kind]
        elif kind == _BINARY:
            self._bytes()
        elif kind == _STRUCT:
            self.struct({})
        elif kind in (_LIST, _SET):
            count, of = self._list()
            self._skip_all(count, of)
        elif kind == _MAP:
            count = self._varint()
            kinds = self.byte() if count else 0
            self._skip_all(count, kinds >> 4, kinds & 0x0F)
        elif kind in _NUMBERS:
            self._varint()
        else:
            _unusual()

    def _skip_all(self, count: int, *kinds: int) -> None:
        for _ in range(count):
            for kind in kinds:
                # In a list a truth value takes a byte; as a field it is in the field's head.
                self._skip(_BYTE if kind in (_TRUE, _FALSE) else kind)

    def _list(self) -> tuple[int, int]:
        head = self.byte()
        return (head >> 4 if head >> 4 != 0x0F else self._varint()), head & 0x0F

    def _bytes(self) -> int:
        size = self._varint()
        self._place += size
        return size

    def number(self) -> int:
        """The next number with a sign."""
        raw = self._varint()
        return (raw >> 1) ^ -(raw & 1)

    def _varint(self) -> int:
        found = shift = 0
        while (byte := self.byte()) & 0x80:
            found |= (byte & 0x7F) << shift
            shift += 7
        return found | byte << shift

    def byte(self) -> int:
        """The next byte; IndexError after the last one."""
        byte = self._data[self._place]
        self._place += 1
        return byte


_KEPT_BYTES: Final = 4 << 20
"""The most bytes of footers, as they are in their files; decoded, they are a few times as large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFooter:
    """A footer whose column chunks were checked; ``row_bytes`` as from `largest_row_bytes`."""

    metadata: pq.FileMetaData
    row_bytes: float


class KeptFooters:
    """At most ``max_bytes`` of the last files' footers, by path, for one thread; a larger one is not kept."""

    def __init__(self, max_bytes: int = _KEPT_BYTES) -> None:
        # Data files never change.
        self._free_bytes = max_bytes
        self._kept: OrderedDict[str, CheckedFooter] = OrderedDict()

    def get(self, path: str) -> CheckedFooter | None:
        """The footer of a file; None if it is not kept."""
        return self._kept.get(path)

    def add(self, path: str, footer: CheckedFooter) -> None:
        """Keeps a footer; the oldest ones make room for it."""
        if path in self._kept:
            return
        self._kept[path] = footer
        self._free_bytes -= footer.metadata.serialized_size
        while self._free_bytes < 0:
            _, oldest = self._kept.popitem(last=False)
            self._free_bytes += oldest.metadata.serialized_size
