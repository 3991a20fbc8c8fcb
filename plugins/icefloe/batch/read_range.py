"""Phase two of the shuffle: one reduce range, from shuffle blocks to delivered changes."""

import logging
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.audit.sums import Sums
from icefloe.batch.context import BatchContext
from icefloe.batch.deliver import Delivery, deliver
from icefloe.batch.extents import load_extents
from icefloe.batch.range_rows import RangeRows, identity_hashes
from icefloe.batch.results import RangeResult, delivered, record_delivered
from icefloe.changes.consolidate import consolidate
from icefloe.changes.net import net_changes
from icefloe.changes.row_hash import RowHashes, row_hashes
from icefloe.changes.updates import pair_updates
from icefloe.iceberg.identifier_columns import ColumnPath, resolve_identifier_columns
from icefloe.shuffle.extents import RangeExtents

__all__ = ["range_changes", "read_range"]

logger = logging.getLogger(__name__)


def read_range(context: BatchContext, range_id: int, *, epoch: int = 0) -> RangeResult:
    """Delivers the changes of one reduce range, or adopts the result that is there.

    Args:
        context: of the batch.
        range_id: of the coalesce plan.
        epoch: of the extents; grows when a damaged map output was made again.

    Raises:
        BatchCommittedError: the batch is done.
        CorruptMapOutputError: names the map output to make again.
        AuditError: the changes do not add up to what the map tasks handed on; nothing was delivered.
    """
    result = delivered(context.store, range_id)
    if result is not None:
        return result
    context.refuse_committed()
    started = time.monotonic()
    extents = load_extents(context, range_id, epoch)
    message, sums = deliver(context, range_id, lambda delivery: range_changes(context, extents, delivery))
    logger.info("range %d: delivered %d changes", range_id, message.rows)
    return record_delivered(
        context.store,
        RangeResult(
            range_id=range_id,
            message=message,
            sums=sums.to_documents(),
            fetched_bytes=sum(extent.length for extent in extents.extents),
            seconds=time.monotonic() - started,
        ),
    )


def range_changes(context: BatchContext, extents: RangeExtents, delivery: Delivery) -> Iterator[pa.RecordBatch]:
    """The changes of one reduce range in delivery order: by identity, ordinal, and before image first.

    Args:
        context: of the batch.
        extents: what to fetch and what it must add up to.
        delivery: builds the batches and keeps their sums.

    Raises:
        CorruptMapOutputError: names the map output to make again.
        AuditError: after the last batch, when the changes do not add up.
    """
    schema = context.schema
    identity = resolve_identifier_columns(schema.columns, context.plan.identity.columns)
    rows = RangeRows(
        context.store, extents, schema=schema.arrow, identity=identity, memory_bytes=context.plan.memory_bytes
    )
    for piece in rows.pieces():
        yield from _changes(piece, identity, delivery, is_net=context.plan.is_net)
    delivery.sums.require(
        Sums(extents.ordinals),
        what=f"range {extents.range_id} of batch {context.plan.batch_number}",
        per_ordinal=not context.plan.is_net,
    )


def _changes(
    rows: pa.Table, identity: tuple[ColumnPath, ...], delivery: Delivery, *, is_net: bool
) -> Iterator[pa.RecordBatch]:
    """The changes of rows among which every identity stands with all its rows."""
    weights, ordinals = (rows.column(index).to_numpy() for index in (-2, -1))
    table = rows.select(range(rows.num_columns - 2))
    hashes = row_hashes(table.columns)
    identities = identity_hashes(table, identity) if identity else None
    positions, weights = consolidate(hashes, ordinals, weights)
    ordinals = ordinals[positions]
    if is_net:
        left, weights, ordinals = net_changes(
            row_hashes=hashes.take(positions),
            identity_hashes=_taken(identities, positions),
            change_ordinals=ordinals,
            weights=weights,
        )
        positions = positions[left]
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


def _taken(hashes: RowHashes | None, positions: NDArray[np.int64]) -> RowHashes | None:
    return None if hashes is None else hashes.take(positions)
