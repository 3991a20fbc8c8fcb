"""Words of strings and bytes: eight bytes plainly, further ones as a sequence of words.

Sums over sequences are those words, and the elements of a list.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.changes.row_hash.mixing import BLOCK_ROWS, HashSums, Mixer, Seed, Words

Rows = NDArray[np.int64] | slice
Fetch = Callable[[Rows, NDArray[np.int64] | int], Words]
"""The words, without nulls, of the elements at some positions of some rows' sequences."""

PIECE: Final = 1024
"""Elements of a row that have factors of their own; longer sequences are a sequence of pieces."""
_MANY_ROWS: Final = 256
"""Number of rows from which one array operation per position costs less than computing each element's position."""


def add_sequences(counts: NDArray[np.int64], fetch: Fetch, *, seed: Seed, mixer: Mixer, sums: HashSums) -> None:
    """Add the contributions of each row's elements, ``counts`` of them, to its sum."""
    longer = np.flatnonzero(counts > PIECE)
    if len(longer):
        _add_pieces(longer, counts[longer], fetch, seed=seed, mixer=mixer, sums=sums)
        counts = np.where(counts > PIECE, 0, counts)
    factors = seed.at_positions(int(counts.max(initial=0)))
    # Rows of 3, 1 and 2 elements:  position 0 of rows 0 1 2, then position 1 of rows 0 2, then position 2 of row 0. One
    # array operation for each position is the fastest way while many rows take part. One row of a thousand elements
    # would take a thousand operations on one value each, so the last few rows are added end to end.
    rows = np.flatnonzero(counts)
    position = 0
    while len(rows) >= _MANY_ROWS:
        at_position = [each[position] for each in factors]
        for start in range(0, len(rows), BLOCK_ROWS):
            chosen: Rows = rows[start : start + BLOCK_ROWS]
            if len(rows) == len(counts):
                chosen = slice(start, start + BLOCK_ROWS)
            mixed = mixer.elements(fetch(chosen, position), at_position)
            sums.low[chosen] += mixed.low
            sums.high[chosen] += mixed.high
        position += 1
        rows = np.flatnonzero(counts > position)
    if len(rows):
        _add_few(rows, counts[rows], position, fetch, factors=factors, mixer=mixer, sums=sums)


def _add_pieces(
    rows: NDArray[np.int64], counts: NDArray[np.int64], fetch: Fetch, *, seed: Seed, mixer: Mixer, sums: HashSums
) -> None:
    """The sums of pieces are the elements of another sequence."""
    # Rows 4 and 7 of 2,500 and 1,025 elements:    owner  4 4 4 7 7    number  0 1 2 0 1    size  1024 1024 452 1024 1
    pieces = -(-counts // PIECE)
    starts = np.cumsum(pieces) - pieces
    owner = np.repeat(rows, pieces)
    number = np.arange(len(owner)) - np.repeat(starts, pieces)
    of_pieces = HashSums.zeros(len(owner))
    add_sequences(
        np.minimum(np.repeat(counts, pieces) - number * PIECE, PIECE),
        lambda some, positions: fetch(owner[some], number[some] * PIECE + positions),
        seed=seed,
        mixer=mixer,
        sums=of_pieces,
    )

    def piece(some: Rows, positions: NDArray[np.int64] | int) -> Words:
        places = starts[some] + positions
        return Words(low=of_pieces.low[places], high=of_pieces.high[places])

    of_rows = HashSums.zeros(len(rows))
    add_sequences(pieces, piece, seed=seed.child(0), mixer=mixer, sums=of_rows)
    sums.low[rows] += of_rows.low
    sums.high[rows] += of_rows.high


def _add_few(
    rows: NDArray[np.int64],
    counts: NDArray[np.int64],
    first: int,
    fetch: Fetch,
    *,
    factors: tuple[NDArray[np.uint64], ...],
    mixer: Mixer,
    sums: HashSums,
) -> None:
    """Elements from position ``first``, end to end, block by block."""
    # Rows of 5, 2 and 1 elements, end to end, in blocks of 4. A row may be in two blocks, a block may touch many rows:
    #   elements   a a a a | a b b c      bounds 0 5 7 8
    #   inside     0     4 | 4 5   7 8    the bounds cut to the block
    bounds = np.concatenate(([0], np.cumsum(counts - first)))
    for start, touched, inside in _blocks(bounds):
        elements = np.diff(inside)
        positions = np.arange(inside[0], inside[-1]) - np.repeat(bounds[touched] - first, elements)
        words = fetch(np.repeat(rows[touched], elements), positions)
        mixed = mixer.elements(words, [each[positions] for each in factors])
        local = inside - start
        for target, lane in ((sums.low, mixed.low), (sums.high, mixed.high)):
            target[rows[touched]] += sums_between(lane, local)


def sums_between(lane: NDArray[np.uint64], bounds: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Sums of the values between neighbouring bounds, which ascend, mod 2^64.

    >>> sums_between(np.array([1, 2, 3], np.uint64), np.array([0, 2, 2, 3])).tolist()
    [3, 0, 3]
    """
    # As the difference of two running sums: both wrap around, and so does it.
    running = np.concatenate((np.zeros(1, np.uint64), np.cumsum(lane)))
    return running[bounds[1:]] - running[bounds[:-1]]


def _blocks(bounds: NDArray[np.int64]) -> Iterator[tuple[int, slice, NDArray[np.int64]]]:
    """Start, rows, and bounds cut to the block; a long row has several blocks."""
    total = int(bounds[-1])
    for start in range(0, total, BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, total)
        first = int(np.searchsorted(bounds, start, side="right")) - 1
        last = int(np.searchsorted(bounds, stop, side="left"))
        yield start, slice(first, last), np.clip(bounds[first : last + 1], start, stop)


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
