"""A slice of the row hashes: those that begin with given bits. Rows that do not fit at once are done in slices."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from icefloe.changes.row_hash.row_hashes import RowHashes

__all__ = ["HashSlice"]

_MAX_BITS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class HashSlice:
    """The hashes whose first ``bits`` bits are ``number``; all hashes if ``bits`` is 0.

    Slices in the order of their numbers hold the hashes in ascending order, and equal hashes are in one slice.
    """

    bits: int = 0
    number: int = 0

    def __post_init__(self) -> None:
        """Refuse numbers that make no slice."""
        if not (0 <= self.bits <= _MAX_BITS and 0 <= self.number < 1 << self.bits):
            raise ValueError(f"expected a number below 2^bits of 0 to {_MAX_BITS} bits, found {self}")

    @staticmethod
    def slices(at_least: int) -> "list[HashSlice]":
        """As many slices as asked for, rounded up to a power of two, that cover every hash once.

        >>> [(each.bits, each.number) for each in HashSlice.slices(3)]
        [(2, 0), (2, 1), (2, 2), (2, 3)]
        """
        bits = (max(at_least, 1) - 1).bit_length()
        return [HashSlice(bits=bits, number=number) for number in range(1 << bits)]

    @property
    def is_whole(self) -> bool:
        """True if it holds every hash."""
        return self.bits == 0

    def halves(self) -> tuple["HashSlice", "HashSlice"]:
        """The two slices that this one consists of, in order.

        Raises:
            ValueError: it has 64 bits already.
        """
        lower, upper = (HashSlice(bits=self.bits + 1, number=2 * self.number + bit) for bit in (0, 1))
        return lower, upper

    def positions(self, hashes: RowHashes) -> NDArray[np.int64]:
        """Positions of the hashes of this slice, ascending."""
        if self.is_whole:
            return np.arange(len(hashes))
        # The upper bits, because a slice has to cut across everything else that is made of bits of a hash: reduce
        # partitions are its lower bits, buckets of a hash index the upper bits of the lower half. By those, a slice
        # would hold all rows of a partition or none, and leave nearly all buckets empty.
        return np.flatnonzero(hashes.high >> np.uint64(_MAX_BITS - self.bits) == np.uint64(self.number))
