"""The mixing functions of the row hash; docs/formats.md, section "Row hash", is their definition.

A value is two words (u, v). A seed turns them into a contribution (y, z), a bijection of the 128 bits:

    x = u + offset;  x ^= x >> 32;  x *= first;  x ^= x >> 29;  x *= K1;  y = x ^ (x >> 32)
    x = (y + v) * second;  x ^= x >> 32;  x *= K2;  z = x ^ (x >> 29)
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["GAMMA", "K1"]

_MASK: Final = 2**64 - 1
GAMMA: Final = 0x9E3779B97F4A7C15
K1: Final = 0xBF58476D1CE4E5B9
K2: Final = 0x94D049BB133111EB
NULL: Final = (0xD1B54A32D192ED03, 0x9E3779B97F4A7C15)
"""The words of a null. No other value of a column has this v. Fixed-width values have a v of 0, decimals have a v
within 10^38 / 2^64 of 0, and byte strings of at most 8 bytes have their length as v."""

BLOCK_ROWS: Final = 16_000
"""Number of values that are worked on at a time. A dozen arrays of them fit the second-level cache of one core. One
array is smaller than 128 KiB: from that size on glibc maps, and the kernel clears, fresh memory for every array."""
_S29, _S32 = np.uint64(29), np.uint64(32)
_K1, _K2 = np.uint64(K1), np.uint64(K2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Two words for each value: ``low`` is u; ``high`` is v, None if all are 0; ``nulls`` marks nulls."""

    low: NDArray[np.uint64]
    high: NDArray[np.uint64] | None = None
    nulls: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HashSums:
    """Sums of contributions, lane by lane mod 2^64."""

    low: NDArray[np.uint64]
    high: NDArray[np.uint64]

    @classmethod
    def zeros(cls, length: int) -> "HashSums":
        """Sums of nothing yet."""
        return cls(low=np.zeros(length, np.uint64), high=np.zeros(length, np.uint64))

    def slice(self, start: int, stop: int) -> "HashSums":
        """A view of the sums from ``start`` to ``stop``."""
        return HashSums(low=self.low[start:stop], high=self.high[start:stop])


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """The constants of one column, or of one place inside a nested column; ``null`` is the contribution of a null."""

    number: int
    offset: np.uint64
    first: np.uint64
    second: np.uint64
    null: tuple[np.uint64, np.uint64]

    def child(self, place: int) -> "Seed":
        """The seed of a place inside this one."""
        # Places begin at 16 because the seed's own constants are draws 1 to 3 of the same sequence.
        return seed_of(scramble(self.number + (16 + place) * GAMMA))


def scramble(number: int) -> int:
    """The output function of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).

    >>> hex(scramble(GAMMA))
    '0xe220a8397b1dcdaf'
    """
    x = number & _MASK
    x = (x ^ x >> 30) * K1 & _MASK
    x = (x ^ x >> 27) * K2 & _MASK
    return x ^ x >> 31


@lru_cache(maxsize=4096)
def seed_of(number: int) -> Seed:
    """The seed with this number."""
    offset, first, second = (scramble(number + draw * GAMMA) for draw in (1, 2, 3))
    # An odd factor has an inverse mod 2^64, so mixing loses nothing. An even one would send two values to one.
    first, second = first | 1, second | 1
    return Seed(
        number=number,
        offset=np.uint64(offset),
        first=np.uint64(first),
        second=np.uint64(second),
        null=_mix_null(offset, first, second),
    )


def column_seed(position: int) -> Seed:
    """The seed of the column at ``position``, from 0, among the hashed columns."""
    return seed_of(scramble((position + 1) * GAMMA))


class Mixer:
    """Adds contributions to sums, block by block, in scratch memory of its own: one per thread."""

    def __init__(self) -> None:
        self._scratch = [np.empty(BLOCK_ROWS, np.uint64) for _ in range(3)]

    def add(self, words: Words, seed: Seed, sums: HashSums) -> None:
        """Adds the contribution of each value to the sum at its place."""
        for start in range(0, len(words.low), BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            y, z = self._mix(words, seed, block)
            # After the mixing, because Arrow may leave anything in the words of a null.
            if words.nulls is not None:
                nulls = np.flatnonzero(words.nulls[block])
                y[nulls], z[nulls] = seed.null
            sums.low[block] += y
            sums.high[block] += z

    def _mix(self, words: Words, seed: Seed, block: slice) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        low = words.low[block]
        y, z, shifted = (scratch[: len(low)] for scratch in self._scratch)
        np.add(low, seed.offset, out=y)
        y ^= np.right_shift(y, _S32, out=shifted)
        y *= seed.first
        y ^= np.right_shift(y, _S29, out=shifted)
        y *= _K1
        y ^= np.right_shift(y, _S32, out=shifted)
        if words.high is None:
            np.multiply(y, seed.second, out=z)
        else:
            np.add(y, words.high[block], out=z)
            z *= seed.second
        z ^= np.right_shift(z, _S32, out=shifted)
        z *= _K2
        z ^= np.right_shift(z, _S29, out=shifted)
        return y, z


def _mix_null(offset: int, first: int, second: int) -> tuple[np.uint64, np.uint64]:
    # The steps of Mixer._mix on Python's numbers: NumPy warns when a single number overflows.
    x = NULL[0] + offset & _MASK
    x = (x ^ x >> 32) * first & _MASK
    x = (x ^ x >> 29) * K1 & _MASK
    y = x ^ x >> 32
    x = (y + NULL[1]) * second & _MASK
    x = (x ^ x >> 32) * K2 & _MASK
    return np.uint64(y), np.uint64(x ^ x >> 29)
