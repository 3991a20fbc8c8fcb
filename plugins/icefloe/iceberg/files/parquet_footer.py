"""The column chunks in a Parquet footer, checked before Arrow looks at them.

Arrow checks a chunk's metadata when it is asked for. A fault there is a C++ exception that pyarrow does not catch, and
it ends the process. So one damaged or hostile footer would take its worker along, try after try.

Source: https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
"""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from icefloe.iceberg.unreadable import UndecodableError

_MAGIC_BYTES: Final = 4
_ROW_GROUPS, _COLUMNS, _METADATA, _ENCRYPTED, _SIZES = 4, 1, 3, 8, 16
_TEXT_BYTES, _REPETITIONS, _DEFINITIONS = 1, 2, 3
"""Field ids of FileMetaData, RowGroup, ColumnChunk (twice), ColumnMetaData and SizeStatistics (three times)."""
_NUMBERS: Final = frozenset({4, 5, 6})
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
"""Types of Thrift's compact protocol; the others are numbers of variable length."""


def check_chunks(metadata: pq.FileMetaData) -> None:
    """Raise if looking at a column chunk would end the process.

    Args:
        metadata: pyarrow's, of the file.

    Raises:
        UndecodableError: a row group lacks chunks, or a chunk's metadata contradicts the file's schema.
    """
    # Arrow writes down what it understood, so these bytes are valid whatever the file holds. Nothing is read for them.
    sink = pa.BufferOutputStream()
    metadata.write_metadata_file(sink)
    footer = _Compact(sink.getvalue().to_pybytes(), _MAGIC_BYTES).struct({_ROW_GROUPS: {_COLUMNS: _CHUNK}})
    leaves = [metadata.schema.column(number) for number in range(metadata.num_columns)]
    for group in footer.get(_ROW_GROUPS, ()):
        chunks = group.get(_COLUMNS, ())
        if len(chunks) != len(leaves):
            raise UndecodableError(f"a row group of its footer has {len(chunks)} column chunks, not {len(leaves)}")
        for leaf, chunk in zip(leaves, chunks, strict=True):
            _check(leaf, chunk)


_CHUNK: Final = {_METADATA: {_SIZES: {_TEXT_BYTES: None, _REPETITIONS: None, _DEFINITIONS: None}}, _ENCRYPTED: {}}


def _check(leaf: pq.ColumnSchema, chunk: dict[int, Any]) -> None:
    if _METADATA not in chunk or _ENCRYPTED in chunk:
        raise UndecodableError(f"the metadata of a column chunk of {leaf.path} is missing or encrypted")
    sizes = chunk[_METADATA].get(_SIZES, {})
    levels = ((_REPETITIONS, leaf.max_repetition_level), (_DEFINITIONS, leaf.max_definition_level))
    if any(len(sizes.get(field, ())) not in (0, most + 1) for field, most in levels):
        raise UndecodableError(f"the level histogram of a column chunk of {leaf.path} does not fit its column")
    if _TEXT_BYTES in sizes and leaf.physical_type != "BYTE_ARRAY":
        raise UndecodableError(f"a column chunk of {leaf.path} counts bytes of texts, but its column has none")


class _Compact:
    """A reader of Thrift's compact protocol, for valid bytes.

    Args:
        data: the bytes.
        place: at which the first struct begins.
    """

    def __init__(self, data: bytes, place: int) -> None:
        self._data = data
        self._place = place

    def struct(self, wanted: dict[int, Any]) -> dict[int, Any]:
        """The wanted fields of the struct that begins here; ends at the byte after the struct.

        Args:
            wanted: by field id what to read of a struct, or of the structs of a list; None for numbers.
        """
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
                field = field + step if step else self._number()
                if field in wanted:
                    found[field] = self._value(kind, wanted[field])
                else:
                    self._skip(kind)
                place = self._place
        self._place = place + 1
        return found

    def _value(self, kind: int, wanted: Any) -> Any:
        if kind == _STRUCT:
            return self.struct(wanted)
        if kind == _LIST:
            count, of = self._list()
            return [self._value(of, wanted) for _ in range(count)]
        return self._number()

    def _skip(self, kind: int) -> None:
        if kind in (_TRUE, _FALSE):
            return
        if kind == _BYTE:
            self._place += 1
        elif kind == _DOUBLE:
            self._place += 8
        elif kind == _BINARY:
            size = self._varint()
            self._place += size
        elif kind == _STRUCT:
            self.struct({})
        elif kind in (_LIST, _SET):
            count, of = self._list()
            self._skip_all([of] * count)
        elif kind == _MAP:
            count = self._varint()
            kinds = self._byte() if count else 0
            self._skip_all([kinds >> 4, kinds & 0x0F] * count)
        else:
            self._varint()

    def _skip_all(self, kinds: Sequence[int]) -> None:
        for kind in kinds:
            # In a list a truth value takes a byte; as a field it is in the field's head.
            self._skip(_BYTE if kind in (_TRUE, _FALSE) else kind)

    def _list(self) -> tuple[int, int]:
        head = self._byte()
        return (head >> 4 if head >> 4 != 0x0F else self._varint()), head & 0x0F

    def _number(self) -> int:
        raw = self._varint()
        return (raw >> 1) ^ -(raw & 1)

    def _varint(self) -> int:
        found = shift = 0
        while (byte := self._byte()) & 0x80:
            found |= (byte & 0x7F) << shift
            shift += 7
        return found | byte << shift

    def _byte(self) -> int:
        byte = self._data[self._place]
        self._place += 1
        return byte
