"""Phase two of the shuffle: one reduce range, from shuffle blocks to changes."""

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.batch.context.batch_folder import BatchFolder
from icefloe.batch.reduce.coalesce_map_outputs import BatchExtents
from icefloe.batch.reduce.moves import CancelledRows, load_moves
from icefloe.batch.reduce.range_rows import RangeRows, RowDivision, RowGroup
from icefloe.batch.rows.file_effects import Sums
from icefloe.batch.staged_changes import RangeResult, StagedChanges
from icefloe.changes.alignment import aligned_batches
from icefloe.changes.columns import ChangeType
from icefloe.changes.consolidate import consolidate
from icefloe.changes.identity_moves import combined_hashes
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.changes.updates import net_changes, pair_updates
from icefloe.shuffle.blocks import BlockRows, HashRows
from icefloe.shuffle.extents import RangeExtents
from icefloe.sinks.change_files import ChangeFiles
from icefloe.storage.requests import Requests

__all__ = ["changes_of_rows", "range_changes", "read_range"]

logger = logging.getLogger(__name__)

_MOST_ROWS: Final = 1 << 16
_CHUNK_BYTES: Final = 8 << 20
_BYTES_PER_CHANGE: Final = 128
"""Memory to order and pair one change, in addition to its row."""


def read_range(folder: BatchFolder, sink: ChangeFiles, range_id: int, *, requests: Requests, epoch: int) -> RangeResult:
    """Delivers the changes of one reduce range, or adopts an existing result.

    Raises:
        CorruptMapOutputError: names the map output to make again.
    """
    result = RangeResult.load(folder.store, range_id)
    if result is not None:
        return result
    started = time.monotonic()
    batch_extents = BatchExtents(folder, epoch)
    extents = batch_extents.of(range_id)
    staged = StagedChanges(folder)
    message = staged.write(sink, range_id, range_changes(folder, batch_extents, range_id, staged))
    logger.info("range %d: wrote %d changes", range_id, message.rows)
    result = RangeResult(
        range_id=range_id,
        message=message,
        sums=staged.sums.to_documents(),
        fetched_bytes=extents.size_bytes,
        fetched_blocks=len(extents.blocks),
        seconds=time.monotonic() - started,
    )
    recorded = result.create(folder.store)
    if recorded != result:
        logger.info("range %d: another attempt was first", range_id)
        requests.add({"races_lost": 1})
    return recorded


def range_changes(
    folder: BatchFolder, batch_extents: BatchExtents, range_id: int, staged: StagedChanges
) -> Iterator[pa.RecordBatch]:
    """The changes of one reduce range in delivery order: by identity, ordinal, and before image first.

    Raises:
        CorruptMapOutputError: names the map output to make again.
    """
    return changes_of_rows(folder, batch_extents.of(range_id), load_moves(folder, batch_extents, range_id), staged)


def changes_of_rows(
    folder: BatchFolder, extents: RangeExtents, moves: Iterable[HashRows], staged: StagedChanges
) -> Iterator[pa.RecordBatch]:
    """`range_changes` of blocks and moves that are at hand."""
    expected = Sums(extents.ordinals)
    num_partitions = folder.plan.num_partitions
    with CancelledRows(extents, num_partitions=num_partitions, memory_bytes=folder.memory_bytes) as cancelled:
        for some in moves:
            expected.add_rows(some.row_hashes, some.change_ordinals, some.weights)
            cancelled.add(some)
        changes = GroupChanges(folder, staged, cancelled if folder.shape.is_identity_carried else None)
        for group in RangeRows(folder, extents).groups():
            yield from changes.of(group)
    staged.sums.require(
        expected,
        what=f"range {extents.range_id} of batch {folder.plan.batch_number}",
        per_ordinal=not folder.plan.is_net,
    )


class _Survivors(NamedTuple):
    rows: pa.Table
    hashes: RowHashes
    identities: RowHashes | None
    weights: NDArray[np.int64]
    ordinals: NDArray[np.int32]
    last_ordinal: int

    @property
    def batch(self) -> pa.RecordBatch:
        [batch] = self.rows.to_batches()
        return batch

    def public_hashes(self, positions: NDArray[np.int64]) -> RowHashes:
        """The hashes that order rows of one identity alike in every batch."""
        return RowHashes.of_batch(self.rows.take(pa.array(positions)), key=RowHashes.PUBLIC_KEY)

    def take(self, positions: NDArray[np.int64]) -> "_Survivors":
        return _Survivors(
            self.rows.take(pa.array(positions)).combine_chunks(),
            self.hashes.take(positions),
            _taken(self.identities, positions),
            self.weights[positions],
            self.ordinals[positions],
            self.last_ordinal,
        )


class GroupChanges:
    """Turns groups of rows into changes. Without ``cancelled`` no row can be cancelled by other identities."""

    def __init__(self, folder: BatchFolder, staged: StagedChanges, cancelled: CancelledRows | None) -> None:
        self._plan = folder.plan
        self._shape = folder.shape
        self._memory_bytes = folder.memory_bytes
        self._staged = staged
        self._cancelled = cancelled

    def of(self, group: RowGroup) -> Iterator[pa.RecordBatch]:
        """Changes of a group, in delivery order."""
        # Not a generator expression: its variable would keep a piece while the next one is made.
        survivors = map(self._survivors, group.pieces)
        if group.is_torn:
            yield from self._of_one(survivors)
            return
        for each in survivors:
            yield from self._of_many(each)

    def _survivors(self, piece: pa.Table) -> _Survivors:
        """The rows that cancel neither among themselves nor against other identities."""
        rows, weights, ordinals = BlockRows.of(piece)
        hashes = self._shape.row_hashes(rows)
        identities = self._shape.identities(rows) if self._shape.has_identity else None
        # In a frame of its own, so that what it needs is gone before the rows are copied.
        positions, weights, ordinals, last_ordinal = self._left(hashes, identities, weights, ordinals)
        return _Survivors(
            self._shape.without_identity(rows).take(pa.array(positions)).combine_chunks(),
            hashes.take(positions),
            _taken(identities, positions),
            weights,
            ordinals,
            last_ordinal,
        )

    def _left(
        self,
        hashes: RowHashes,
        identities: RowHashes | None,
        weights: NDArray[np.int64],
        ordinals: NDArray[np.int32],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32], int]:
        """Positions, weights and ordinals of the rows that are left, and the last ordinal before net changes."""
        # If other identities may cancel rows, equal rows of two identities must stay apart until that is applied.
        keys = hashes if self._cancelled is None or identities is None else combined_hashes(hashes, identities)
        positions, weights = consolidate(keys, ordinals, weights)
        ordinals = ordinals[positions]
        last_ordinal = int(ordinals.max(initial=0))
        if self._plan.is_net:
            kept, weights, ordinals = net_changes(
                row_hashes=keys.take(positions),
                identity_hashes=_taken(identities, positions),
                change_ordinals=ordinals,
                weights=weights,
            )
            positions = positions[kept]
        if self._cancelled is not None and identities is not None and len(positions):
            left = keys.take(positions)
            cancelled = [*self._cancelled.of(left, identities)]
            if cancelled:
                kept, weights = self._without(cancelled, left, ordinals, weights)
                positions, ordinals = positions[kept], ordinals[kept]
        return positions, weights, ordinals, last_ordinal

    def _without(
        self,
        cancelled: Sequence[HashRows],
        keys: RowHashes,
        ordinals: NDArray[np.int32],
        weights: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Cancelled rows of other pieces match none here."""
        moved = (combined_hashes(each.row_hashes, each.identity_hashes) for each in cancelled)
        own = np.zeros_like(ordinals) if self._plan.is_net else ordinals
        # What other identities cancel is added like rows of opposite weight. Amounts for rows of other pieces come out
        # after the keys and are left out.
        positions, sums = consolidate(
            RowHashes.concat([keys, *moved]),
            np.concatenate([own, *(each.change_ordinals for each in cancelled)]),
            np.concatenate([weights, *(each.weights for each in cancelled)]),
        )
        is_own = positions < len(keys)
        return positions[is_own], sums[is_own]

    def _of_many(self, survivors: _Survivors) -> Iterator[pa.RecordBatch]:
        """The rows are in memory; their copies may not fit there."""
        most = max(1, self._memory_bytes // 4 // _BYTES_PER_CHANGE)
        copies = np.abs(survivors.weights)
        if copies.sum() <= most:
            if len(copies):
                yield from self._paired(survivors)
            return
        keys = survivors.hashes if survivors.identities is None else survivors.identities
        order = np.lexsort((keys.low, keys.high))
        others = np.flatnonzero(np.diff(keys.high[order]) | np.diff(keys.low[order])) + 1
        if not len(others):
            yield from self._of_one(iter([survivors._replace(last_ordinal=int(survivors.ordinals.max()))]))
            return
        for half in np.split(order, [others[len(others) // 2]]):
            yield from self._of_many(survivors.take(half))

    def _paired(self, survivors: _Survivors) -> Iterator[pa.RecordBatch]:
        picks, change_types = pair_updates(
            row_hashes=survivors.hashes,
            identity_hashes=survivors.identities,
            change_ordinals=survivors.ordinals,
            weights=survivors.weights,
            order_of=survivors.public_hashes,
        )
        return self._staged.batches(survivors.batch, survivors.hashes, picks, change_types, survivors.ordinals)

    def _of_one(self, survivors: Iterator[_Survivors]) -> Iterator[pa.RecordBatch]:
        """Not all rows fit into memory."""
        last_ordinal, shape, ordinals = 0, self._shape, len(self._plan.spec.steps)
        with TornIdentity(
            shape.delivered.arrow, hash_key=shape.hash_key, num_ordinals=ordinals, memory_bytes=self._memory_bytes
        ) as torn:
            for each in survivors:
                last_ordinal = max(last_ordinal, each.last_ordinal)
                if len(each.weights):
                    # Only the last piece shows the ordinal of net changes, which is the same for all rows.
                    steps = np.zeros_like(each.ordinals) if self._plan.is_net else each.ordinals
                    torn.add(each.batch, each.public_hashes(np.arange(len(steps))), each.weights, steps)
                del each
            yield from torn.changes(self._staged, all_ordinals=last_ordinal if self._plan.is_net else None)


class TornIdentity(ExitStack):
    """Takes one identity's consolidated rows in the order of public hashes; gives changes as `pair_updates` does."""

    def __init__(self, schema: pa.Schema, *, hash_key: int, num_ordinals: int, memory_bytes: int) -> None:
        super().__init__()
        # Deletes and inserts of each ordinal lie apart, so that both can be read side by side.
        self._hash_key, self._schema = hash_key, BlockRows.schema(schema)
        division = RowDivision(schema=self._schema, memory_bytes=memory_bytes)
        # A temporary file, until the context ends.
        self._spilled = self.enter_context(division.spilled(2 * num_ordinals))
        self._copies = np.zeros((num_ordinals, 2), np.int64)

    def add(
        self, rows: pa.RecordBatch, hashes: RowHashes, weights: NDArray[np.int64], change_ordinals: NDArray[np.int32]
    ) -> None:
        """Takes rows in any order, whose hashes are all above those of the rows before."""
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
        """Changes by ordinal: deletes, pairs, inserts."""
        for ordinal in np.flatnonzero(self._copies.any(axis=1)).tolist():
            yield from self._changes_of(ordinal, staged, ordinal if all_ordinals is None else all_ordinals)

    def _changes_of(self, ordinal: int, staged: StagedChanges, delivered_ordinal: int) -> Iterator[pa.RecordBatch]:
        deletes, inserts = (_Copies(self._spilled.batches(2 * ordinal + is_insert)) for is_insert in (0, 1))
        num_deletes, num_inserts = self._copies[ordinal].tolist()
        pairs = min(num_deletes, num_inserts)
        groups: Sequence[tuple[Sequence[ChangeType], Iterable[Sequence[pa.RecordBatch]]]] = (
            ([ChangeType.DELETE], zip(deletes.first(num_deletes - pairs))),
            (
                [ChangeType.UPDATE_BEFORE, ChangeType.UPDATE_AFTER],
                aligned_batches(deletes.first(pairs), inserts.first(pairs)),
            ),
            ([ChangeType.INSERT], zip(inserts.first(num_inserts - pairs))),
        )
        for kinds, of_kinds in groups:
            for sides in of_kinds:
                rows = pa.concat_batches(sides)
                # The first row of each side, then the second one.
                picks = np.arange(rows.num_rows).reshape(len(kinds), -1).T.ravel()
                types = np.tile(np.array(kinds, np.uint8), rows.num_rows // len(kinds))
                ordinals = np.full(rows.num_rows, delivered_ordinal, np.int32)
                hashes = RowHashes.of_batch(rows, key=self._hash_key)
                yield from staged.batches(rows, hashes, picks, types, ordinals)


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


def _repeated(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    rows, weights, _ = BlockRows.of(batch)
    stops = np.cumsum(np.abs(weights))
    at_once = _rows_at_once(rows)
    for start in range(0, int(stops[-1]), at_once):
        copies = np.arange(start, min(start + at_once, int(stops[-1])))
        yield rows.take(pa.array(np.searchsorted(stops, copies, side="right")))


def _rows_at_once(rows: pa.RecordBatch) -> int:
    return min(_MOST_ROWS, max(1, _CHUNK_BYTES * rows.num_rows // max(1, rows.nbytes)))


def _taken(hashes: RowHashes | None, positions: NDArray[np.int64]) -> RowHashes | None:
    return None if hashes is None else hashes.take(positions)
