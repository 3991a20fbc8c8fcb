"""Changed rows of many small reads, handed on together.

Hashing and routing a batch has a fixed cost of a millisecond. Thousands of small data files, of which delete files
remove a few rows each, would pay it for each file.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.batch.rows.row_set import Positions
from icefloe.batch.rows.weighted_rows import Effect, WeightedRows
from icefloe.changes.row_hash.row_hashes import row_hashes_of_batch

_SMALL_ROWS: Final = 4096
_SMALL_BYTES: Final = 256 << 10
_COMBINED_BYTES: Final = 1 << 20


class CombinedReads:
    """Small batches that wait, with the weights of their rows.

    Args:
        hash_key: key of the row hashes.
    """

    def __init__(self, hash_key: int) -> None:
        self._hash_key = hash_key
        self._forget()

    @staticmethod
    def is_small(batch: pa.RecordBatch) -> bool:
        """True if a batch is worth waiting for others."""
        return batch.num_rows <= _SMALL_ROWS and batch.nbytes <= _SMALL_BYTES

    def add(self, batch: pa.RecordBatch, positions: Positions, effects: Sequence[Effect]) -> None:
        """Takes rows of one file.

        Args:
            batch: compared rows with text decoded, for which ``is_small`` is true.
            positions: positions of the rows.
            effects: on the file.
        """
        for effect in effects:
            picked = effect.rows.among(positions)
            self._picks.append(picked + self._num_rows)
            self._ordinals.append(np.full(len(picked), effect.change_ordinal, np.int32))
            self._weights.append(np.full(len(picked), effect.weight, np.int64))
        self._batches.append(batch)
        self._num_rows += batch.num_rows
        self._num_bytes += batch.nbytes

    @property
    def is_full(self) -> bool:
        """True if so many rows wait that more would not help."""
        return self._num_rows >= _SMALL_ROWS or self._num_bytes >= _COMBINED_BYTES

    def taken(self) -> Iterator[WeightedRows]:
        """The rows that wait, as one batch; nothing if there are none."""
        if not self._num_rows:
            return
        batch = pa.concat_batches(self._batches)
        hashes, picks = row_hashes_of_batch(batch, key=self._hash_key), np.concatenate(self._picks)
        ordinals, weights = np.concatenate(self._ordinals), np.concatenate(self._weights)
        self._forget()
        yield WeightedRows(
            batch=batch.take(pa.array(picks)),
            row_hashes=hashes.take(picks),
            change_ordinals=ordinals,
            weights=weights,
        )

    def _forget(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._picks: list[Positions] = []
        self._ordinals: list[NDArray[np.int32]] = []
        self._weights: list[NDArray[np.int64]] = []
        self._num_rows = self._num_bytes = 0
