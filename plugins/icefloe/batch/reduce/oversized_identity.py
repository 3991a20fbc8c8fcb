"""One identity with more changes than fit into memory: put in order on local disk, and paired as they are read back."""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.batch.reduce.divided_rows import RowDivision
from icefloe.batch.stage.staged_changes import StagedChanges
from icefloe.changes.alignment import aligned_batches
from icefloe.changes.columns import ChangeType
from icefloe.changes.row_hash.row_hashes import RowHashes, row_hashes_of_batch
from icefloe.shuffle.blocks import BlockRows, block_schema
from icefloe.storage.local_folders import KeepsLocalFiles

_MOST_ROWS: Final = 1 << 16
_CHUNK_BYTES: Final = 8 << 20


class TornIdentity(KeepsLocalFiles):
    """Takes the consolidated rows of one identity in the order of their public hashes, then gives its changes.

    They are the same changes, in the same order, that `pair_updates` makes of all rows at once. Use it as a context
    manager: it owns a temporary file.

    Args:
        schema: of the delivered columns.
        hash_key: key of the batch's row hashes.
        num_ordinals: change ordinals of the batch.
        memory_bytes: memory of the task.
    """

    def __init__(self, schema: pa.Schema, *, hash_key: int, num_ordinals: int, memory_bytes: int) -> None:
        super().__init__()
        # Deletes and inserts of each ordinal lie apart, so that both can be read side by side.
        self._hash_key, self._schema = hash_key, block_schema(schema)
        division = RowDivision(schema=self._schema, memory_bytes=memory_bytes)
        self._spilled = self._owned.enter_context(division.spilled(2 * num_ordinals))
        self._copies = np.zeros((num_ordinals, 2), np.int64)

    def add(
        self, rows: pa.RecordBatch, hashes: RowHashes, weights: NDArray[np.int64], change_ordinals: NDArray[np.int32]
    ) -> None:
        """Takes rows in any order, whose hashes are all above those of the rows before.

        Raises:
            TransientError: local disk is full or broken.
        """
        is_insert = (weights > 0).astype(np.int32)
        np.add.at(self._copies, (change_ordinals, is_insert), np.abs(weights))
        order = np.lexsort((hashes.low, hashes.high))
        at_once = _rows_at_once(rows)
        # Not all at once: the rows that wait for the disk would be there three times.
        for start in range(0, len(order), at_once):
            some = order[start : start + at_once]
            ours = [pa.array(weights[some], pa.int64()), pa.array(change_ordinals[some], pa.int32())]
            columns = [*rows.take(pa.array(some)).columns, *ours]
            parts = 2 * change_ordinals[some] + is_insert[some]
            self._spilled.add(pa.RecordBatch.from_arrays(columns, schema=self._schema), parts)

    def changes(self, staged: StagedChanges, *, all_ordinals: int | None) -> Iterator[pa.RecordBatch]:
        """The changes by ordinal: deletes, pairs, inserts.

        Args:
            staged: builds the batches.
            all_ordinals: the ordinal of all changes, if they are net changes and all rows were added with 0.
        """
        for ordinal in np.flatnonzero(self._copies.any(axis=1)).tolist():
            yield from self._changes_of(ordinal, staged, ordinal if all_ordinals is None else all_ordinals)

    def _changes_of(self, ordinal: int, staged: StagedChanges, delivered_ordinal: int) -> Iterator[pa.RecordBatch]:
        sides = [_Copies(self._spilled.batches(2 * ordinal + is_insert)) for is_insert in (0, 1)]
        pairs = int(self._copies[ordinal].min())
        yield from self._alone(
            ChangeType.DELETE, sides[0].first(int(self._copies[ordinal, 0]) - pairs), delivered_ordinal, staged
        )
        for before, after in aligned_batches(*(side.first(pairs) for side in sides)):
            num_pairs = before.num_rows
            rows = pa.concat_batches([before, after])
            picks = np.arange(2 * num_pairs).reshape(2, num_pairs).T.ravel()
            kinds = np.tile(np.array([ChangeType.UPDATE_BEFORE, ChangeType.UPDATE_AFTER], np.uint8), num_pairs)
            yield from self._delivered(rows, picks, kinds, delivered_ordinal, staged)
        yield from self._alone(ChangeType.INSERT, sides[1].rest(), delivered_ordinal, staged)

    def _alone(
        self, kind: ChangeType, batches: Iterator[pa.RecordBatch], ordinal: int, staged: StagedChanges
    ) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            kinds = np.full(rows.num_rows, kind, np.uint8)
            yield from self._delivered(rows, np.arange(rows.num_rows), kinds, ordinal, staged)

    def _delivered(
        self,
        rows: pa.RecordBatch,
        picks: NDArray[np.int64],
        kinds: NDArray[np.uint8],
        ordinal: int,
        staged: StagedChanges,
    ) -> Iterator[pa.RecordBatch]:
        ordinals = np.full(rows.num_rows, ordinal, np.int32)
        return staged.batches(rows, row_hashes_of_batch(rows, key=self._hash_key), picks, kinds, ordinals)


class _Copies:
    """Rows, each as often as its weight says."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._chunks = (chunk for batch in batches for chunk in _repeated(batch))
        self._left: pa.RecordBatch | None = None

    def first(self, count: int) -> Iterator[pa.RecordBatch]:
        """The next rows; there must be as many."""
        while count:
            rows = next(self._chunks) if self._left is None else self._left
            self._left = rows.slice(count) if rows.num_rows > count else None
            rows = rows.slice(0, count)
            count -= rows.num_rows
            yield rows

    def rest(self) -> Iterator[pa.RecordBatch]:
        """All rows that are left."""
        if self._left is not None:
            yield self._left
        yield from self._chunks


def _repeated(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    rows, weights, _ = BlockRows.of(batch)
    stops = np.cumsum(np.abs(weights))
    at_once = _rows_at_once(rows)
    for start in range(0, int(stops[-1]), at_once):
        copies = np.arange(start, min(start + at_once, int(stops[-1])))
        yield rows.take(pa.array(np.searchsorted(stops, copies, side="right")))


def _rows_at_once(rows: pa.RecordBatch) -> int:
    return min(_MOST_ROWS, max(1, _CHUNK_BYTES * rows.num_rows // max(1, rows.nbytes)))
