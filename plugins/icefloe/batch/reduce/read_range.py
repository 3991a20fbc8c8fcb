"""Phase two of the shuffle: one reduce range, from shuffle blocks to delivered changes."""

import logging
import time
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.audit.sums import Sums
from icefloe.batch.context.batch_folder import BatchFolder
from icefloe.batch.plan_document import Plan
from icefloe.batch.reduce.find_identity_moves import load_identity_moves
from icefloe.batch.reduce.identity_move_files import IdentityMoves
from icefloe.batch.reduce.range_extents import BatchExtents
from icefloe.batch.reduce.range_rows import RangeRows
from icefloe.batch.rows.shuffled_form import ShuffledForm
from icefloe.batch.stage.range_results import RangeResult, create_range_result, load_range_result
from icefloe.batch.stage.stage_changes import Delivery, stage_changes
from icefloe.changes.consolidate import consolidate
from icefloe.changes.identity_moves import combined_hashes
from icefloe.changes.net import net_changes
from icefloe.changes.row_hash.row_hashes import RowHashes, row_hashes
from icefloe.changes.updates import pair_updates
from icefloe.shuffle.blocks import BlockRows
from icefloe.shuffle.extents import RangeExtents
from icefloe.shuffle.reduce_ids import reduce_ids
from icefloe.sinks.sink import Sink
from icefloe.storage.requests import Requests, RequestTotals

__all__ = ["range_changes", "read_range"]

logger = logging.getLogger(__name__)


def read_range(folder: BatchFolder, sink: Sink, range_id: int, *, requests: Requests, epoch: int = 0) -> RangeResult:
    """Delivers the changes of one reduce range, or adopts an existing result.

    Args:
        folder: folder of the batch.
        sink: sink of the batch.
        range_id: range id of the coalesce plan.
        requests: counts a race that is lost to another attempt.
        epoch: epoch of the extents; it grows when a damaged map output was made again.

    Raises:
        CorruptMapOutputError: names the map output to make again.
        AuditError: the changes do not add up to the rows that the map tasks handed on; nothing was delivered.
    """
    result = load_range_result(folder.store, range_id)
    if result is not None:
        return result
    started = time.monotonic()
    extents = BatchExtents(folder, epoch).of(range_id)
    message, sums = stage_changes(folder, sink, range_id, lambda delivery: range_changes(folder, extents, delivery))
    logger.info("range %d: delivered %d changes", range_id, message.rows)
    result = RangeResult(
        range_id=range_id,
        message=message,
        sums=sums.to_documents(),
        fetched_bytes=extents.size_bytes,
        fetched_blocks=len(extents.blocks),
        seconds=time.monotonic() - started,
    )
    recorded = create_range_result(folder.store, result)
    if recorded != result:
        logger.info("range %d: another attempt was first", range_id)
        requests.add(RequestTotals(races_lost=1))
    return recorded


def range_changes(folder: BatchFolder, extents: RangeExtents, delivery: Delivery) -> Iterator[pa.RecordBatch]:
    """The changes of one reduce range in delivery order: by identity, ordinal, and before image first.

    Args:
        folder: folder of the batch.
        extents: extents to fetch, and the sums that their rows must add up to.
        delivery: builds the batches and keeps their sums.

    Raises:
        CorruptMapOutputError: names the map output to make again.
        AuditError: after the last batch, if the changes do not add up.
    """
    shuffled = folder.shuffled_form
    expected = Sums(extents.ordinals)
    cancelled = load_identity_moves(folder, extents.range_id) if folder.shape.is_identity_carried else None
    if cancelled is not None:
        expected.add_rows(cancelled.row_hashes, cancelled.change_ordinals, cancelled.weights)
    rows = RangeRows(folder.store, extents, shuffled=shuffled, memory_bytes=folder.memory_bytes, machine=folder.machine)
    by_partition = None if cancelled is None else cancelled.by_partition(folder.plan.num_partitions)
    changes = _RangeChanges(folder.plan, shuffled, by_partition)
    for piece in rows.pieces():
        yield from changes.of(piece, delivery)
    delivery.sums.require(
        expected,
        what=f"range {extents.range_id} of batch {folder.plan.batch_number}",
        per_ordinal=not folder.plan.is_net,
    )


class _RangeChanges:
    """Turns the rows of pieces into changes. A piece holds all rows of each of its identities."""

    def __init__(self, plan: Plan, shuffled: ShuffledForm, cancelled: Mapping[int, IdentityMoves] | None) -> None:
        self._plan = plan
        self._shuffled = shuffled
        self._cancelled = cancelled

    def of(self, piece: pa.Table, delivery: Delivery) -> Iterator[pa.RecordBatch]:
        """The changes of one piece, in delivery order."""
        block_rows = BlockRows.of(piece)
        rows = block_rows.rows
        table = self._shuffled.without_identity(rows)
        hashes = row_hashes(table.columns)
        identities = self._shuffled.identities(rows) if self._shuffled.has_identity else None
        positions, weights, ordinals = self._survivors(block_rows, hashes, identities)
        if not len(positions):
            return
        [survivors] = table.take(pa.array(positions)).combine_chunks().to_batches()
        hashes = hashes.take(positions)
        picks, change_types = pair_updates(
            row_hashes=hashes,
            identity_hashes=_taken(identities, positions),
            change_ordinals=ordinals,
            weights=weights,
        )
        yield from delivery.batches(survivors, hashes, picks, change_types, ordinals)

    def _survivors(
        self, block_rows: BlockRows, hashes: RowHashes, identities: RowHashes | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
        """The rows whose weights do not cancel, with weights and ordinals."""
        _, weights, ordinals = block_rows
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
        cancelled = self._cancelled_of(identities)
        if cancelled is None:
            return positions, weights, ordinals
        kept, weights = self._without(cancelled, keys.take(positions), ordinals, weights)
        return positions[kept], weights, ordinals[kept]

    def _cancelled_of(self, identities: RowHashes | None) -> IdentityMoves | None:
        """The cancelled rows of the one reduce partition that a piece's rows belong to."""
        if not self._cancelled or not identities:
            return None
        [partition] = reduce_ids(identities.slice(0, 1), self._plan.num_partitions)
        return self._cancelled.get(int(partition))

    def _without(
        self,
        cancelled: IdentityMoves,
        keys: RowHashes,
        ordinals: NDArray[np.int32],
        weights: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows left without those that other identities cancel. Cancelled rows of other pieces match none here."""
        own = np.zeros_like(ordinals) if self._plan.is_net else ordinals
        # What other identities cancel is added like rows of opposite weight. Amounts for rows of other pieces come out
        # behind the keys and are left out.
        positions, sums = consolidate(
            RowHashes.concat([keys, combined_hashes(cancelled.row_hashes, cancelled.identity_hashes)]),
            np.concatenate([own, cancelled.change_ordinals]),
            np.concatenate([weights, cancelled.weights]),
        )
        is_own = positions < len(keys)
        return positions[is_own], sums[is_own]


def _taken(hashes: RowHashes | None, positions: NDArray[np.int64]) -> RowHashes | None:
    return None if hashes is None else hashes.take(positions)
