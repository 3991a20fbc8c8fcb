"""Sums by change ordinal: rows, signed count and signed 128-bit hash sum, taken for groups of rows at once."""

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict

from icefloe.documents import STRICT, Hash128

__all__ = ["OrdinalSums"]

_MASK: Final = np.uint64(0xFFFF_FFFF)
_HALF: Final = np.uint64(32)
_EXACT_WEIGHTS: Final = 1 << 30
"""Up to this sum of absolute weights the sums of 32-bit limbs and their carries fit into 63 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrdinalSums:
    """Sums of the rows of one change ordinal.

    Attributes:
        rows: number of rows, whatever their weights.
        signed_count: the sum of their weights.
        hash_sum: the sum of their row hashes times their weights, mod 2^128.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    change_ordinal: int
    rows: int
    signed_count: int
    hash_sum: Hash128

    def __add__(self, other: "OrdinalSums") -> "OrdinalSums":
        return OrdinalSums(
            change_ordinal=self.change_ordinal,
            rows=self.rows + other.rows,
            signed_count=self.signed_count + other.signed_count,
            hash_sum=(self.hash_sum + other.hash_sum) % (1 << 128),
        )


def grouped_hash_sums(
    high: NDArray[np.uint64], low: NDArray[np.uint64], weights: NDArray[np.int64], starts: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The signed sum of 128-bit hashes of each group of neighbouring rows, mod 2^128, as its high and low halves.

    Args:
        high: the upper 64 bits of each row's hash.
        low: the lower 64 bits.
        weights: weight of each row.
        starts: position at which each group starts, ascending; a group ends at the start of the next.

    >>> one = np.ones(3, np.uint64)
    >>> [half.tolist() for half in grouped_hash_sums(0 * one, one, np.array([1, 1, -1]), np.array([0, 2]))]
    [[0, 18446744073709551615], [2, 18446744073709551615]]
    """
    if not len(starts):
        return np.zeros(0, np.uint64), np.zeros(0, np.uint64)
    limbs = [low & _MASK, low >> _HALF, high & _MASK, high >> _HALF]
    exact = _absolute_sum(weights) <= _EXACT_WEIGHTS
    kind = np.int64 if exact else object  # Python's integers for weights no table has
    # As on paper, in digits of 32 bits: each digit is added up by itself, then carries go from the lowest digit up. A
    # negative carry borrows, because >> rounds down.
    signed = [np.add.reduceat(limb.astype(kind) * weights.astype(kind), starts) for limb in limbs]
    carried = []
    carry = np.zeros(len(starts), kind)
    for limb_sum in signed:
        total = limb_sum + carry
        carried.append((total & 0xFFFF_FFFF).astype(np.uint64))
        carry = total >> 32
    return carried[3] << _HALF | carried[2], carried[1] << _HALF | carried[0]


def _absolute_sum(weights: NDArray[np.int64]) -> int:
    if not len(weights):
        return 0
    largest = max(-int(weights.min()), int(weights.max()))
    return largest * len(weights)
