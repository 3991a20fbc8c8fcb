"""A replay: states and changes of one table as weighted rows that must cancel out."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from icefloe.changes.consolidate import consolidate
from icefloe.changes.hash_slice import HashSlice
from icefloe.changes.row_hash.row_hashes import RowHashes

__all__ = ["Replay"]

_PENDING_ROWS: Final = 1 << 22


class Replay:
    """Adds up weighted rows by row hash. The rows left at the end are the difference; if all was equal, none are left.

    Holds about 24 bytes for each row that has not cancelled. A table too large for that is replayed in slices of the
    row hashes, one after the other. Each replay sees every row and keeps the rows of its slice.

    Args:
        hash_slice: slice of the row hashes that count.
    """

    def __init__(self, hash_slice: HashSlice | None = None) -> None:
        self._slice = hash_slice or HashSlice()
        self._hashes = RowHashes.concat([])
        self._weights = np.zeros(0, np.int64)
        self._pending: list[tuple[RowHashes, NDArray[np.int64]]] = []
        self._pending_rows = 0

    def add(self, hashes: RowHashes, weights: NDArray[np.int64]) -> None:
        """Adds rows; both have one length."""
        if not self._slice.is_whole:
            rows = self._slice.positions(hashes)
            hashes, weights = hashes.take(rows), weights[rows]
        self._pending.append((hashes, weights))
        self._pending_rows += len(hashes)
        # Once there are as many new rows as held ones, so that each row is sorted a few times, not once for each batch.
        if self._pending_rows > max(_PENDING_ROWS, len(self._hashes)):
            self._consolidate()

    def differing_rows(self) -> int:
        """Number of rows that did not cancel; a row counts as often as it is too many or missing."""
        self._consolidate()
        return int(np.abs(self._weights).sum())

    def _consolidate(self) -> None:
        hashes = RowHashes.concat([self._hashes, *(each for each, _ in self._pending)])
        weights = np.concatenate([self._weights, *(each for _, each in self._pending)])
        positions, self._weights = consolidate(hashes, np.zeros(len(hashes), np.int32), weights)
        self._hashes = hashes.take(positions)
        self._pending, self._pending_rows = [], 0
