"""Rows that do not fit into memory, divided on local disk by the bits of a hash until each part fits."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.shuffle.spilled_rows import SpilledRows
from icefloe.storage.local_folders import local_folders

BYTES_PER_ROW: Final = 64
"""Hashes, weights and positions of a row, which its own bytes do not count."""
_PART_BITS: Final = 6
"""As many as divide a hot reduce partition into its 64 parts: `RangeRows` relies on it."""
_NUM_PARTS: Final = 1 << _PART_BITS
_HASH_BITS: Final = 64
_LARGEST_PIECE_BYTES: Final = 1 << 30
"""Limit of a piece, however much memory there is: Arrow takes rows from it by position without trouble."""

HashesOf = Callable[[pa.RecordBatch], RowHashes]


class HashPart(NamedTuple):
    """Rows of one part, in the order in which they came.

    Attributes:
        batches: the rows; they have to be read before the next part.
        fits: True if they fit into memory. Otherwise all of them have the same hash.
    """

    batches: Iterator[pa.RecordBatch]
    fits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDivision:
    """Divides rows by hashes.

    Attributes:
        schema: of the rows (`block_schema`).
        memory_bytes: memory of the task; a quarter of it is for a piece, an eighth for rows on their way to disk.
    """

    schema: pa.Schema
    memory_bytes: int

    @property
    def piece_bytes(self) -> int:
        """Bytes that fit into memory."""
        return min(self.memory_bytes // 4, _LARGEST_PIECE_BYTES)

    def spilled(self, num_parts: int, *, turn: int = 0) -> SpilledRows:
        """Room on local disk.

        Args:
            num_parts: number of parts.
            turn: chooses among the disks of a task.
        """
        disks = local_folders(os.environ)
        return SpilledRows(self.schema, num_parts, memory_bytes=self.memory_bytes // 8, disk=disks[turn % len(disks)])

    def parts(self, batches: Iterable[pa.RecordBatch], hashes_of: HashesOf, *, depth: int = 0) -> Iterator[HashPart]:
        """The rows in the ascending order of their hashes' parts. Rows of one hash are in one part.

        Args:
            batches: the rows.
            hashes_of: gives the hash of each row.
            depth: number of times that they were divided already.

        Raises:
            TransientError: local disk is full or broken.
        """
        #   depth 0   000000..   000001..   000010..   000011..      64 parts in one file
        #   depth 1              000001 000000..                     only of a part that does not fit
        with self.spilled(_NUM_PARTS, turn=depth) as spilled:
            same = _SameHashes()
            for batch in batches:
                hashes = hashes_of(batch)
                numbers = _next_bits(hashes, depth)
                same.add(numbers, hashes)
                spilled.add(batch, numbers)
            spilled.flush()
            sizes = spilled.content_bytes + spilled.rows * BYTES_PER_ROW
            # Without further bits, different hashes have the same upper half. Those rows stay together.
            is_last = (depth + 1) * _PART_BITS >= _HASH_BITS
            for number in np.flatnonzero(spilled.rows).tolist():
                rows = spilled.batches(number)
                if sizes[number] <= self.piece_bytes:
                    yield HashPart(rows, fits=True)
                elif same.is_one(number) or is_last:
                    yield HashPart(rows, fits=not same.is_one(number))
                else:
                    yield from self.parts(rows, hashes_of, depth=depth + 1)


def _next_bits(hashes: RowHashes, depth: int) -> NDArray[np.int32]:
    # From the top, because a reduce partition is the lower bits: by those, all rows would be in one part.
    shift = max(_HASH_BITS - (depth + 1) * _PART_BITS, 0)
    return (hashes.high >> np.uint64(shift) & np.uint64(_NUM_PARTS - 1)).astype(np.int32)


class _SameHashes:
    """The first hash of each part, and whether all others are equal to it."""

    def __init__(self) -> None:
        self._first = RowHashes(np.zeros(_NUM_PARTS, np.uint64), np.zeros(_NUM_PARTS, np.uint64))
        self._is_known = np.zeros(_NUM_PARTS, np.bool_)
        self._differ = np.zeros(_NUM_PARTS, np.bool_)

    def add(self, numbers: NDArray[np.int32], hashes: RowHashes) -> None:
        """Takes the hashes of rows and their parts."""
        found, places = np.unique(numbers, return_index=True)
        is_new = ~self._is_known[found]
        self._first.high[found[is_new]] = hashes.high[places[is_new]]
        self._first.low[found[is_new]] = hashes.low[places[is_new]]
        self._is_known[found] = True
        first = self._first.take(numbers)
        self._differ[numbers[(first.high != hashes.high) | (first.low != hashes.low)]] = True

    def is_one(self, number: int) -> bool:
        """True if all rows of a part have the same hash."""
        return not self._differ[number]
