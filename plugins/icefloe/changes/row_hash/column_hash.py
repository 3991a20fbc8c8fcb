"""The contribution of one column to the row hash; nested values by their parts.

Words of fixed-width values are canonical: equal for equal values of any Arrow type. Words of strings and bytes are
eight bytes plainly, and further ones as a sequence of words.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import DTypeLike, NDArray

from icefloe.changes.row_hash.mixing import HashSums, Mixer, Rows, Seed, Words, add_sequences, sums_between
from icefloe.errors import TerminalError

__all__ = ["fixed_width_words", "is_fixed_width"]

_NAN: Final = np.uint64(0x7FF8_0000_0000_0000)
_DAY_MS: Final = 86_400_000
_MICROSECONDS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}
"""Factor to the hashed unit: microseconds, and nanoseconds for types of nanoseconds."""


def is_fixed_width(data_type: pa.DataType) -> bool:
    """True if ``fixed_width_words`` knows the type."""
    return data_type.id in _WORDS


def fixed_width_words(array: pa.Array) -> Words:
    """The words of fixed-width values; decimals have up to 38 digits."""
    low, high = _WORDS[array.type.id](array)
    return Words(low=low, high=high, nulls=null_mask(array))


_TwoWords = tuple[NDArray[np.uint64], NDArray[np.uint64] | None]


def _integers(dtype: DTypeLike) -> Callable[[pa.Array], _TwoWords]:
    def words(array: pa.Array) -> _TwoWords:
        return _values(array, dtype).astype(np.int64, copy=False).view(np.uint64), None

    return words


def _booleans(array: pa.Array) -> _TwoWords:
    return bits(array, 1).astype(np.uint64), None


def _floats(dtype: DTypeLike) -> Callable[[pa.Array], _TwoWords]:
    def words(array: pa.Array) -> _TwoWords:
        # Adding 0.0 makes a new array of doubles and turns -0.0 into 0.0.
        values = np.add(_values(array, dtype), 0.0, dtype=np.float64)
        low = values.view(np.uint64)
        is_nan = np.isnan(values)
        if is_nan.any():
            low[is_nan] = _NAN
        return low, None

    return words


def _days_of_milliseconds(array: pa.Array) -> _TwoWords:
    return (_values(array, np.int64) // _DAY_MS).view(np.uint64), None


def _times(dtype: DTypeLike) -> Callable[[pa.Array], _TwoWords]:
    def words(array: pa.Array) -> _TwoWords:
        values = _values(array, dtype).astype(np.int64, copy=False)
        factor = _MICROSECONDS[array.type.unit]
        return (values if factor == 1 else values * factor).view(np.uint64), None

    return words


def _decimals(array: pa.Array) -> _TwoWords:
    pairs = _values(array, np.dtype((np.uint64, 2)))
    low = np.ascontiguousarray(pairs[:, 0])
    # The upper half less the sign that the lower half shows: 0 if the number fits 64 bits, as most do.
    high = np.bitwise_xor(pairs[:, 1], (low.view(np.int64) >> 63).view(np.uint64), dtype=np.uint64)
    return low, high if high.any() else None


def _wide_decimals(array: pa.Array) -> _TwoWords:
    try:
        return _decimals(array.cast(pa.decimal128(38, array.type.scale)))
    except pa.ArrowInvalid as cause:
        raise TerminalError(
            f"a value of type {array.type} has more than 38 digits; Iceberg decimals have at most 38",
        ) from cause


def _values(array: pa.Array, dtype: DTypeLike) -> NDArray[Any]:
    kind = np.dtype(dtype)
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros((len(array), *kind.shape), kind.base)
    return np.frombuffer(buffer, kind, count=len(array), offset=array.offset * kind.itemsize)


_WORDS: Final[dict[int, Callable[[pa.Array], _TwoWords]]] = {
    pa.lib.Type_BOOL: _booleans,
    pa.lib.Type_INT8: _integers(np.int8),
    pa.lib.Type_INT16: _integers(np.int16),
    pa.lib.Type_INT32: _integers(np.int32),
    pa.lib.Type_INT64: _integers(np.int64),
    pa.lib.Type_UINT8: _integers(np.uint8),
    pa.lib.Type_UINT16: _integers(np.uint16),
    pa.lib.Type_UINT32: _integers(np.uint32),
    pa.lib.Type_UINT64: _integers(np.uint64),
    pa.lib.Type_HALF_FLOAT: _floats(np.float16),
    pa.lib.Type_FLOAT: _floats(np.float32),
    pa.lib.Type_DOUBLE: _floats(np.float64),
    pa.lib.Type_DATE32: _integers(np.int32),
    pa.lib.Type_DATE64: _days_of_milliseconds,
    pa.lib.Type_TIME32: _times(np.int32),
    pa.lib.Type_TIME64: _times(np.int64),
    pa.lib.Type_TIMESTAMP: _times(np.int64),
    pa.lib.Type_DURATION: _times(np.int64),
    pa.lib.Type_DECIMAL32: _integers(np.int32),
    pa.lib.Type_DECIMAL64: _integers(np.int64),
    pa.lib.Type_DECIMAL128: _decimals,
    pa.lib.Type_DECIMAL256: _wide_decimals,
}


_WIDE: Final = {pa.lib.Type_LARGE_STRING, pa.lib.Type_LARGE_BINARY}
_ENCODABLE: Final = {pa.lib.Type_STRING, pa.lib.Type_BINARY, *_WIDE}
_VIEWS: Final = {pa.lib.Type_STRING_VIEW, pa.lib.Type_BINARY_VIEW}
_BYTES: Final = {pa.lib.Type_STRING, pa.lib.Type_BINARY, pa.lib.Type_FIXED_SIZE_BINARY, *_WIDE, *_VIEWS}
_LONG_BYTES: Final = 12
_SAMPLE_ROWS: Final = 512
_TAIL: Final = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)
"""Masks that keep the first ``count`` bytes of a word."""
_END: Final = np.array([1 << 8 * count for count in range(8)] + [0], np.uint64)
"""A byte of 1 after the last byte of a value, so that no value goes on where another ends."""


def is_bytes(data_type: pa.DataType) -> bool:
    """True if ``byte_words`` knows the type."""
    return data_type.id in _BYTES


def byte_words(array: pa.Array, seed: Seed, mixer: Mixer) -> Words:
    """The words of strings, binaries and fixed-size binaries."""
    text = _Text.of(array)
    # With a byte of 1 at the end: a word up to 7 bytes, 2 words from 8, 3 from 16. Fixed lengths need no end.
    counts = text.lengths >> 3 if text.have_ends else np.maximum((text.lengths - 1) >> 3, 0)
    low = text.words(slice(None), 0)
    if not counts.any():
        return Words(low=low, nulls=null_mask(array))
    sums = HashSums(low=low, high=np.zeros(len(low), np.uint64))
    add_sequences(counts, text.further_words, seed=seed.child(0), mixer=mixer, sums=sums)
    return Words(low=sums.low, high=sums.high, nulls=null_mask(array))


def repeats_long_values(array: pa.Array) -> bool:
    """True if hashing by a dictionary is faster: long values, few distinct ones at the start."""
    if array.type.id not in _ENCODABLE or len(array) < 4 * _SAMPLE_ROWS:
        return False
    # Encoding takes about 20 ns a value; hashing takes 10, and another 20 for each further word.
    offsets = _offsets(array)
    if offsets[-1] - offsets[0] < _LONG_BYTES * len(array):
        return False
    return len(array.slice(0, _SAMPLE_ROWS).dictionary_encode().dictionary) <= _SAMPLE_ROWS // 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Text:
    """Byte strings: value i is ``lengths[i]`` bytes from ``starts[i]``; ``window[b]`` is the word at byte b."""

    window: NDArray[np.uint64]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    have_ends: bool  # unless the type says how long they are

    @classmethod
    def of(cls, array: pa.Array) -> "_Text":
        if array.type.id in _VIEWS:
            array = array.cast(pa.large_binary())
        offsets = _offsets(array)
        have_ends = array.type.id != pa.lib.Type_FIXED_SIZE_BINARY
        begin, end = int(offsets[0]), int(offsets[-1])
        content = np.frombuffer(array.buffers()[-1] or b"", np.uint8)
        # A word is read from any byte on, so the last value needs 8 readable bytes after it. In a slice these are
        # those of the next rows; masks remove them. Otherwise the content is copied with 8 bytes more.
        if len(content) < end + 8:
            content = np.concatenate((content[begin:end], np.zeros(8, np.uint8)))
            offsets = offsets - begin
        # Overlapping words, one for each byte: the word of a value is one look-up, whatever its alignment.
        #     bytes    a b c d e f g h i j     window[0] = abcdefgh, window[1] = bcdefghi, ...
        window: NDArray[Any] = np.ndarray((len(content) - 7,), "<u8", content, strides=(1,))
        return cls(window=window, starts=offsets[:-1], lengths=np.diff(offsets), have_ends=have_ends)

    def further_words(self, rows: Rows, positions: NDArray[np.int64] | int) -> Words:
        return Words(low=self.words(rows, 8 * positions + 8))

    def words(self, rows: Rows, bytes_before: NDArray[np.int64] | int) -> NDArray[np.uint64]:
        """Cut to the bytes that count, with the end if a value has one."""
        found: NDArray[np.uint64] = self.window[self.starts[rows] + bytes_before]
        left = self.lengths[rows] - bytes_before
        np.minimum(left, 8, out=left)
        found &= _TAIL[left]
        if self.have_ends:
            found |= _END[left]
        return found


def _offsets(array: pa.Array) -> NDArray[np.int64]:
    rows = len(array)
    if array.type.id == pa.lib.Type_FIXED_SIZE_BINARY:
        return np.arange(array.offset, array.offset + rows + 1) * array.type.byte_width
    buffer = array.buffers()[1]
    if buffer is None or buffer.size == 0:
        return np.zeros(rows + 1, np.int64)
    kind = np.dtype(np.int64 if array.type.id in _WIDE else np.int32)
    return np.frombuffer(buffer, kind, count=rows + 1, offset=array.offset * kind.itemsize).astype(np.int64, copy=False)


def null_mask(array: pa.Array) -> NDArray[np.bool_] | None:
    """The nulls; None if there are none."""
    if array.null_count == 0:
        return None
    return bits(array, 0) == 0


def bits(array: pa.Array, buffer_index: int) -> NDArray[np.uint8]:
    """The bits of a buffer of truth values."""
    buffer = array.buffers()[buffer_index]
    if buffer is None or not len(array):
        return np.zeros(len(array), np.uint8)
    first_byte, first_bit = divmod(array.offset, 8)
    packed = np.frombuffer(buffer, np.uint8, count=-(-(first_bit + len(array)) // 8), offset=first_byte)
    return np.unpackbits(packed, count=first_bit + len(array), bitorder="little")[first_bit:]


_LIST_VIEWS: Final = {pa.lib.Type_LIST_VIEW, pa.lib.Type_LARGE_LIST_VIEW}
_LISTS: Final = {pa.lib.Type_LIST, pa.lib.Type_LARGE_LIST, pa.lib.Type_FIXED_SIZE_LIST, *_LIST_VIEWS}


def add_column(array: pa.Array, seed: Seed, mixer: Mixer, sums: HashSums) -> None:
    """Refuses unions, intervals and decimals of more than 38 digits."""
    array = _plain(array)
    if repeats_long_values(array):
        array = array.dictionary_encode()
    if pa.types.is_dictionary(array.type):
        _add_dictionary(array, seed, mixer, sums)
    else:
        mixer.add(_words(array, seed, mixer), seed, sums)


def _plain(array: pa.Array) -> pa.Array:
    """Without extension types, runs, and dictionaries longer than their array."""
    if isinstance(array, pa.ExtensionArray):
        return _plain(array.storage)
    if pa.types.is_run_end_encoded(array.type):
        return _plain(pc.run_end_decode(array))
    # A slice of a few rows keeps the dictionary of its whole column; hashing that would cost more than the rows.
    if pa.types.is_dictionary(array.type) and len(array.dictionary) > len(array):
        values = array.dictionary
        if pa.types.is_string_view(values.type) or pa.types.is_binary_view(values.type):
            values = values.cast(pa.large_binary())  # Arrow takes nothing from views
        return _plain(values.take(array.indices))
    return array


def _words(array: pa.Array, seed: Seed, mixer: Mixer) -> Words:
    kind = array.type
    if is_fixed_width(kind):
        return fixed_width_words(array)
    if is_bytes(kind):
        return byte_words(array, seed, mixer)
    if pa.types.is_struct(kind):
        return _struct_words(array, seed, mixer)
    if pa.types.is_map(kind):
        return _map_words(array, seed, mixer)
    if kind.id in _LISTS:
        return _list_words(array, seed, mixer)
    if pa.types.is_null(kind):
        return Words(low=np.zeros(len(array), np.uint64), nulls=np.ones(len(array), np.bool_))
    raise TerminalError(f"values of type {kind} have no row hash; Iceberg has no such type, cast the column")


def _add_dictionary(array: pa.Array, seed: Seed, mixer: Mixer, sums: HashSums) -> None:
    """Each distinct value is hashed once; nulls may be in indices or dictionary."""
    distinct = HashSums.zeros(len(array.dictionary) + 1)
    add_column(array.dictionary, seed, mixer, distinct.slice(0, len(array.dictionary)))
    # The last place is that of null indices, so that one look-up serves nulls, too.
    distinct.low[-1], distinct.high[-1] = seed.null
    indices = fixed_width_words(array.indices)
    picks = indices.low.view(np.int64)
    if indices.nulls is not None:
        picks = np.where(indices.nulls, len(array.dictionary), picks)
    sums.low[:] += distinct.low[picks]
    sums.high[:] += distinct.high[picks]


def _struct_words(array: pa.Array, seed: Seed, mixer: Mixer) -> Words:
    parts = HashSums.zeros(len(array))
    for index in range(array.type.num_fields):
        add_column(array.field(index), seed.child(index), mixer, parts)
    return Words(low=parts.low, high=parts.high, nulls=null_mask(array))


def _list_words(array: pa.Array, seed: Seed, mixer: Mixer) -> Words:
    extents = _Extents.of(array)
    elements = HashSums.zeros(extents.size)
    add_column(extents.cut(array.values), seed.child(0), mixer, elements)

    def fetch(rows: Rows, positions: NDArray[np.int64] | int) -> Words:
        places = extents.starts[rows] + positions
        return Words(low=elements.low[places], high=elements.high[places])

    sums = HashSums(low=np.zeros(len(array), np.uint64), high=extents.counts.astype(np.uint64))
    add_sequences(extents.counts, fetch, seed=seed.child(1), mixer=mixer, sums=sums)
    return Words(low=sums.low, high=sums.high, nulls=null_mask(array))


def _map_words(array: pa.Array, seed: Seed, mixer: Mixer) -> Words:
    extents = _Extents.of(array)
    entries = HashSums.keyed(extents.size, seed.child(2))
    add_column(extents.cut(array.keys), seed.child(0), mixer, entries)
    add_column(extents.cut(array.items), seed.child(1), mixer, entries)
    # Entries have no order, so they are added up like the rows of an audit: scrambled, and one after the other.
    entries.scramble()
    bounds = np.append(extents.starts, extents.size)
    low, high = (sums_between(lane, bounds) for lane in (entries.low, entries.high))
    return Words(low=low, high=high + extents.counts.astype(np.uint64), nulls=null_mask(array))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Extents:
    """Each row's elements: ``counts`` from ``starts``, counted from element ``begin``."""

    begin: int
    end: int
    starts: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, array: pa.Array) -> "_Extents":
        if array.type.id == pa.lib.Type_FIXED_SIZE_LIST:
            counts = np.full(len(array), array.type.list_size)
            starts = (np.arange(len(array)) + array.offset) * array.type.list_size
        elif array.type.id in _LIST_VIEWS:
            starts, counts = _int64s(array.offsets), _int64s(array.sizes)
        else:
            offsets = _int64s(array.offsets)
            starts, counts = offsets[:-1], np.diff(offsets)
        begin = int(starts.min()) if len(starts) else 0
        # A slice of lists keeps the elements of all lists. Only those from begin to end are hashed.
        end = int((starts + counts).max(initial=begin))
        return cls(begin=begin, end=end, starts=starts - begin, counts=counts)

    @property
    def size(self) -> int:
        return self.end - self.begin

    def cut(self, values: pa.Array) -> pa.Array:
        return values.slice(self.begin, self.end - self.begin)


def _int64s(array: pa.Array) -> NDArray[np.int64]:
    return array.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
