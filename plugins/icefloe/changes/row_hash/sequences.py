"""Sums over sequences: the further words of a byte string, the elements of a list."""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
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
