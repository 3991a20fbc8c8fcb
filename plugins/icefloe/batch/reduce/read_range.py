"""Phase two of the shuffle: one reduce range, from shuffle blocks to changes."""

import logging
import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.batch.context.batch_folder import BatchFolder
from icefloe.batch.reduce.coalesce_map_outputs import BatchExtents
from icefloe.batch.reduce.moves import CancelledRows, load_moves
from icefloe.batch.reduce.range_rows import RangeRows, large_identity
from icefloe.batch.staged_changes import RangeResult, StagedChanges
from icefloe.batch.sums import Sums
from icefloe.changes.consolidate import consolidate
from icefloe.changes.identity_moves import combined_hashes
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.changes.updates import net_changes, pair_updates
from icefloe.shuffle.blocks import BlockRows, HashRows
from icefloe.sinks.change_files import ChangeFiles
from icefloe.storage.requests import Requests

__all__ = ["range_changes", "read_range"]

logger = logging.getLogger(__name__)

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
    extents = batch_extents.of(range_id)
    expected = Sums(extents.ordinals)
    rows = RangeRows(
        folder.store, extents, shape=folder.shape, memory_bytes=folder.memory_bytes, machine=folder.machine
    )
    num_partitions = folder.plan.num_partitions
    with CancelledRows(extents, num_partitions=num_partitions, memory_bytes=folder.memory_bytes) as cancelled:
        for some in load_moves(folder, batch_extents, range_id):
            expected.add_rows(some.row_hashes, some.change_ordinals, some.weights)
            cancelled.add(some)
        changes = PieceChanges(folder, staged, cancelled if folder.shape.is_identity_carried else None)
        for piece in rows.pieces():
            yield from changes.of(piece)
    # Several ranges of one partition may fetch the same block, and only its rows tell whose they are: these rows are
    # added to what is expected as they are read. The proof of the batch compares the sums of all ranges with those of
    # the map outputs.
    expected.add(rows.shared_sums)
    staged.sums.require(
        expected,
        what=f"range {range_id} of batch {folder.plan.batch_number}",
        per_ordinal=not folder.plan.is_net,
    )


class _Survivors(NamedTuple):
    rows: pa.Table
    hashes: RowHashes
    identities: RowHashes | None
    weights: NDArray[np.int64]
    ordinals: NDArray[np.int32]

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
        )


class PieceChanges:
    """Turns pieces of a range into changes. Without ``cancelled`` no row can be cancelled by other identities."""

    def __init__(self, folder: BatchFolder, staged: StagedChanges, cancelled: CancelledRows | None) -> None:
        self._plan = folder.plan
        self._shape = folder.shape
        self._memory_bytes = folder.memory_bytes
        self._staged = staged
        self._cancelled = cancelled

    def of(self, piece: pa.Table) -> Iterator[pa.RecordBatch]:
        """Changes of all rows of some identities, in delivery order."""
        survivors = self._survivors(piece)
        # The rows are in memory; their copies may not fit there.
        most = max(1, self._memory_bytes // 4 // _BYTES_PER_CHANGE)
        copies = np.abs(survivors.weights)
        if copies.sum() <= most:
            if len(copies):
                yield from self._paired(survivors)
            return
        keys = survivors.hashes if survivors.identities is None else survivors.identities
        order = np.lexsort((keys.low, keys.high))
        keys = keys.take(order)
        is_start = np.ones(len(order), np.bool_)
        is_start[1:] = (keys.high[1:] != keys.high[:-1]) | (keys.low[1:] != keys.low[:-1])
        for start, stop in _windows(np.flatnonzero(is_start), copies[order], most):
            rows = order[start:stop]
            if copies[rows].sum() > most:
                raise large_identity(self._memory_bytes)
            yield from self._paired(survivors.take(rows))

    def _survivors(self, piece: pa.Table) -> _Survivors:
        block_rows = BlockRows.of(piece)
        rows = block_rows.rows
        table = self._shape.without_identity(rows)
        hashes = self._shape.row_hashes(rows)
        identities = self._shape.identities(rows) if self._shape.has_identity else None
        _, weights, ordinals = block_rows
        positions, weights, ordinals = self._left_of(hashes, identities, weights, ordinals)
        return _Survivors(
            table.take(pa.array(positions)).combine_chunks(),
            hashes.take(positions),
            _taken(identities, positions),
            weights,
            ordinals,
        )

    def _left_of(
        self,
        hashes: RowHashes,
        identities: RowHashes | None,
        weights: NDArray[np.int64],
        ordinals: NDArray[np.int32],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
        """Positions, weights, ordinals of rows that cancel neither among themselves nor against other identities."""
        # If other identities may cancel rows, equal rows of two identities must stay apart until that is applied.
        keys = hashes if self._cancelled is None or identities is None else combined_hashes(hashes, identities)
        positions, weights = consolidate(keys, ordinals, weights)
        ordinals = ordinals[positions]
        if self._plan.is_net:
            kept, weights, ordinals = net_changes(
                row_hashes=keys.take(positions),
                identity_hashes=_taken(identities, positions),
                change_ordinals=ordinals,
                weights=weights,
            )
            positions = positions[kept]
        if self._cancelled is not None and identities is not None and len(hashes):
            left = keys.take(positions)
            cancelled = [*self._cancelled.of(left, identities)]
            if cancelled:
                kept, weights = self._without(cancelled, left, ordinals, weights)
                positions, ordinals = positions[kept], ordinals[kept]
        return positions, weights, ordinals

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

    def _paired(self, survivors: _Survivors) -> Iterator[pa.RecordBatch]:
        picks, change_types = pair_updates(
            row_hashes=survivors.hashes,
            identity_hashes=survivors.identities,
            change_ordinals=survivors.ordinals,
            weights=survivors.weights,
            order_of=survivors.public_hashes,
        )
        return self._staged.batches(survivors.batch, survivors.hashes, picks, change_types, survivors.ordinals)


def _windows(starts: NDArray[np.int64], copies: NDArray[np.int64], most: int) -> Iterator[tuple[int, int]]:
    """Neighbouring identities with as many copies as fit, at least one."""
    ends = np.cumsum(np.add.reduceat(copies, starts))
    stops = np.append(starts[1:], len(copies))
    first = 0
    while first < len(starts):
        before = int(ends[first - 1]) if first else 0
        after = max(first + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield int(starts[first]), int(stops[after - 1])
        first = after


def _taken(hashes: RowHashes | None, positions: NDArray[np.int64]) -> RowHashes | None:
    return None if hashes is None else hashes.take(positions)
