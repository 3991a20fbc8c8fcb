"""Sums over sequences: the words of a byte string, the elements of a list, the entries of a map."""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from icefloe.changes.row_hash.mixing import BLOCK_ROWS, K1, K2, HashSums, Mixer, Seed, Words

Rows = NDArray[np.int64] | slice
Fetch = Callable[[Rows, NDArray[np.int64] | int], Words]
"""The words, without nulls, of the elements at some positions of some rows' sequences."""

_MANY_ROWS: Final = 256
"""Number of rows from which one array operation per position costs less than computing each element's position."""
_K1, _K2 = np.uint64(K1), np.uint64(K2)


def add_sequences(
    counts: NDArray[np.int64], fetch: Fetch, *, seed: Seed, mixer: Mixer, sums: HashSums, is_ordered: bool
) -> None:
    """Add the mixed words of each row's elements to its sum.

    Args:
        counts: number of elements of each row.
        fetch: the elements.
        seed: of the elements' place.
        mixer: the scratch memory.
        sums: one per row.
        is_ordered: True if the position of an element is mixed into its words.
    """
    # Rows of 3, 1 and 2 elements:  position 0 of rows 0 1 2, then position 1 of rows 0 2, then position 2 of row 0. One
    # array operation for each position is the fastest way while many rows take part. One row of a million elements
    # would take a million operations on one value each, so the last few rows are added end to end.
    rows = np.flatnonzero(counts)
    position = 0
    while len(rows) >= _MANY_ROWS:
        chosen: Rows = slice(None) if len(rows) == len(counts) else rows
        words = fetch(chosen, position)
        mixed = _mixed(_placed(words, np.uint64(position)) if is_ordered else words, seed, mixer)
        sums.low[chosen] += mixed.low
        sums.high[chosen] += mixed.high
        position += 1
        rows = np.flatnonzero(counts > position)
    if len(rows):
        _add_long(rows, counts[rows], position, fetch, seed=seed, mixer=mixer, sums=sums, is_ordered=is_ordered)


def _add_long(
    rows: NDArray[np.int64],
    counts: NDArray[np.int64],
    first: int,
    fetch: Fetch,
    *,
    seed: Seed,
    mixer: Mixer,
    sums: HashSums,
    is_ordered: bool,
) -> None:
    """Add few rows, perhaps of many elements: their elements from position ``first``, end to end, block by block."""
    # Rows of 5, 2 and 1 elements, end to end, in blocks of 4. A row may be in two blocks, a block may touch many rows:
    #   elements   a a a a | a b b c      bounds 0 5 7 8
    #   inside     0     4 | 4 5   7 8    the bounds cut to the block
    bounds = np.concatenate(([0], np.cumsum(counts - first)))
    for start, touched, inside in _blocks(bounds):
        elements = np.diff(inside)
        positions = np.arange(inside[0], inside[-1]) - np.repeat(bounds[touched] - first, elements)
        words = fetch(np.repeat(rows[touched], elements), positions)
        mixed = _mixed(_placed(words, positions.view(np.uint64)) if is_ordered else words, seed, mixer)
        local = inside - start
        # The sum of a row in this block, as the difference of two running sums: both wrap around, and so does it.
        for target, lane in ((sums.low, mixed.low), (sums.high, mixed.high)):
            running = np.concatenate((np.zeros(1, np.uint64), np.cumsum(lane)))
            target[rows[touched]] += running[local[1:]] - running[local[:-1]]


def _blocks(bounds: NDArray[np.int64]) -> Iterator[tuple[int, slice, NDArray[np.int64]]]:
    """Start of each block, the rows that it touches, and their bounds cut to it; a long row has several blocks."""
    total = int(bounds[-1])
    for start in range(0, total, BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, total)
        first = int(np.searchsorted(bounds, start, side="right")) - 1
        last = int(np.searchsorted(bounds, stop, side="left"))
        yield start, slice(first, last), np.clip(bounds[first : last + 1], start, stop)


def _placed(words: Words, positions: NDArray[np.uint64] | np.uint64) -> Words:
    step, shift = positions * _K1, positions * _K2
    if words.high is None:
        return Words(low=words.low + step, high=np.broadcast_to(shift, words.low.shape))
    return Words(low=words.low + step, high=words.high + shift)


def _mixed(words: Words, seed: Seed, mixer: Mixer) -> HashSums:
    mixed = HashSums.zeros(len(words.low))
    mixer.add(words, seed, mixed)
    return mixed
