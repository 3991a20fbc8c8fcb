"""The keyed mixing of the row hash; docs/developers/formats.md, section "Row hash", is its definition, with the proof.

A value is two words (u, v). Secret factors turn them into a contribution, and the contributions of a row are added up:

    low  = u * a0 + (u >> 32) * a1                   + the same of v with a2, a3
    high = u * b0 + (u >> 16) * b1 + (u >> 48) * b2  + the same of v with b3, b4, b5

Values chosen without the factors differ by a wanted number under at most one of 2^82 keys: each factor meets a part of
32 bits or less, and the parts of the two lanes begin at different bits, so that the lowest bit in which two values
differ cannot be high up in the parts of both.

Elements of a sequence have factors by their position, and their contributions are added up to words again.

Source: Carter and Wegman, Universal Classes of Hash Functions, 1979; Lemire and Kaser, Strongly Universal String
Hashing is Fast, 2014.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

BLOCK_ROWS: Final = 16_000
"""Number of values that are worked on at a time. A dozen arrays of them fit the second-level cache of one core. One
array is smaller than 128 KiB: from that size on glibc maps, and the kernel clears, fresh memory for every array."""
_POSITIONS: Final = 0xFFFF_FFFF
_FACTORS: Final = 10
_S16, _S29, _S32, _S48 = (np.uint64(bits) for bits in (16, 29, 32, 48))
_ROUNDS: Final = tuple(
    (np.uint64(first), np.uint64(second))
    for first, second in (
        (0xD6E8FEB86659FD93, 0xC4CEB9FE1A85EC53),
        (0xFF51AFD7ED558CCD, 0xE7037ED1A0B428DB),
        (0xA0761D6478BD642F, 0x8EBC6AF09C88C6E3),
    )
)

Factor = np.uint64 | NDArray[np.uint64]
Lane = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Two words for each value: ``low`` is u; ``high`` is v, None if all are 0; ``nulls`` marks nulls."""

    low: Lane
    high: Lane | None = None
    nulls: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HashSums:
    """Sums of contributions, lane by lane mod 2^64."""

    low: Lane
    high: Lane

    @classmethod
    def zeros(cls, length: int) -> "HashSums":
        """Sums of nothing yet."""
        return cls(low=np.zeros(length, np.uint64), high=np.zeros(length, np.uint64))

    @classmethod
    def keyed(cls, length: int, seed: "Seed") -> "HashSums":
        """They begin with the contribution of a null: even zeros come out as the key wants it."""
        low, high = seed.null
        return cls(low=np.full(length, low), high=np.full(length, high))

    def slice(self, start: int, stop: int) -> "HashSums":
        """A view of the sums."""
        return HashSums(low=self.low[start:stop], high=self.high[start:stop])

    def scramble(self) -> None:
        """Three Feistel rounds in place: a bijection that makes sums of hashes not linear."""
        # Without it a hash would be the sum of its columns, and the audit could not see two rows swap a value:
        #   (a, x) and (b, y)   would add up to the same as   (a, y) and (b, x)
        for start in range(0, len(self.low), BLOCK_ROWS):
            left, right = self.low[start : start + BLOCK_ROWS], self.high[start : start + BLOCK_ROWS]
            for first, second in _ROUNDS:
                mixed = right >> _S32
                mixed ^= right
                mixed *= first
                mixed ^= mixed >> _S29
                mixed *= second
                mixed ^= mixed >> _S32
                left += mixed
                left, right = right, left


@dataclass(frozen=True, slots=True, eq=False)
class Seed:
    """The secret words of one column, or of one place inside a nested column."""

    name: bytes
    factors: tuple[np.uint64, ...]  # a0 to a3, then b0 to b5
    null: tuple[np.uint64, np.uint64]

    def child(self, place: int) -> "Seed":
        """The seed of a place inside this one."""
        return _seed(self.name + place.to_bytes(4, "big"))

    def at_positions(self, count: int) -> tuple[Lane, ...]:
        """The factors of elements at positions 0 to ``count`` or more."""
        return _factors_by_position(self.name, max(8, 1 << (count - 1).bit_length()))


def key_seed(key: int) -> Seed:
    """Of whole rows, under a key of 128 bits; its children are the columns', by position."""
    if not 0 <= key < 1 << 128:
        raise ValueError("a key of 128 bits was expected")
    return _seed(key.to_bytes(16, "big"))


@lru_cache(maxsize=4096)
def _seed(name: bytes) -> Seed:
    *factors, null_low, null_high = (np.uint64(word) for word in _drawn(name, _FACTORS + 2))
    return Seed(name, tuple(factors), (null_low, null_high))


@lru_cache(maxsize=64)
def _factors_by_position(name: bytes, count: int) -> tuple[Lane, ...]:
    drawn = _drawn(name + _POSITIONS.to_bytes(4, "big"), _FACTORS * count)
    return tuple(np.ascontiguousarray(drawn.reshape(count, _FACTORS).T))


def _drawn(name: bytes, count: int) -> Lane:
    """Secret words, random to anybody without the key."""
    return np.frombuffer(hashlib.shake_128(name).digest(8 * count), "<u8").astype(np.uint64, copy=False)


class Mixer:
    """Adds contributions to sums, block by block, in its own scratch memory: one per thread."""

    def __init__(self) -> None:
        self._scratch = [np.empty(BLOCK_ROWS, np.uint64) for _ in range(5)]

    def add(self, words: Words, seed: Seed, sums: HashSums) -> None:
        """Adds the contribution of each value to the sum at its place."""
        for start in range(0, len(words.low), BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            low, high = self._mixed(words, seed.factors, block)
            # After the mixing, because Arrow may leave anything in the words of a null.
            if words.nulls is not None:
                nulls = np.flatnonzero(words.nulls[block])
                low[nulls], high[nulls] = seed.null
            sums.low[block] += low
            sums.high[block] += high

    def elements(self, words: Words, factors: Sequence[Factor]) -> HashSums:
        """The contributions of at most `BLOCK_ROWS` words without nulls, valid until the next call."""
        # A factor is a number, or an array with one per word.
        low, high = self._mixed(words, factors, slice(None))
        return HashSums(low=low, high=high)

    def _mixed(self, words: Words, factors: Sequence[Factor], block: slice) -> tuple[Lane, Lane]:
        first = words.low[block]
        low, high, scratch, more_low, more_high = (each[: len(first)] for each in self._scratch)
        _multiply(first, factors[0:2], factors[4:7], low, high, scratch)
        if words.high is not None:
            _multiply(words.high[block], factors[2:4], factors[7:10], more_low, more_high, scratch)
            low += more_low
            high += more_high
        return low, high


def _multiply(
    words: Lane, of_low: Sequence[Factor], of_high: Sequence[Factor], low: Lane, high: Lane, scratch: Lane
) -> None:
    """Overwrites ``low`` and ``high``."""
    np.multiply(words, of_low[0], out=low)
    np.right_shift(words, _S32, out=scratch)
    low += np.multiply(scratch, of_low[1], out=scratch)
    np.multiply(words, of_high[0], out=high)
    np.right_shift(words, _S16, out=scratch)
    high += np.multiply(scratch, of_high[1], out=scratch)
    np.right_shift(words, _S48, out=scratch)
    high += np.multiply(scratch, of_high[2], out=scratch)


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
