"""Words of strings and bytes: eight bytes plainly, further ones as a sequence of words."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.changes.row_hash.canonical import null_mask
from icefloe.changes.row_hash.mixing import HashSums, Mixer, Seed, Words
from icefloe.changes.row_hash.sequences import Rows, add_sequences

_WIDE: Final = {pa.lib.Type_LARGE_STRING, pa.lib.Type_LARGE_BINARY}
_ENCODABLE: Final = {pa.lib.Type_STRING, pa.lib.Type_BINARY, *_WIDE}
_VIEWS: Final = {pa.lib.Type_STRING_VIEW, pa.lib.Type_BINARY_VIEW}
_TYPES: Final = {pa.lib.Type_STRING, pa.lib.Type_BINARY, pa.lib.Type_FIXED_SIZE_BINARY, *_WIDE, *_VIEWS}
_LONG_BYTES: Final = 12
_SAMPLE_ROWS: Final = 512
_TAIL: Final = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)
"""Masks that keep the first ``count`` bytes of a word."""
_END: Final = np.array([1 << 8 * count for count in range(8)] + [0], np.uint64)
"""A byte of 1 after the last byte of a value, so that no value goes on where another ends."""


def is_bytes(data_type: pa.DataType) -> bool:
    """True if ``byte_words`` knows the type."""
    return data_type.id in _TYPES


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
    """True if hashing by a dictionary is faster: long values, few distinct ones at the start.

    Encoding takes about 20 ns a value; hashing takes 10, and another 20 for each further word.
    """
    if array.type.id not in _ENCODABLE or len(array) < 4 * _SAMPLE_ROWS:
        return False
    offsets = _offsets(array)
    if offsets[-1] - offsets[0] < _LONG_BYTES * len(array):
        return False
    return len(array.slice(0, _SAMPLE_ROWS).dictionary_encode().dictionary) <= _SAMPLE_ROWS // 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Text:
    """Byte strings: value i is ``lengths[i]`` bytes from ``starts[i]``; ``window[b]`` is the word at byte b.

    They ``have_ends`` unless the type says how long they are.
    """

    window: NDArray[np.uint64]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    have_ends: bool

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
