"""Equal rows that a step takes from one identity and gives to another: no change, though no reduce range sees both.

Rows are routed by their identity. Where what is delivered of them does not tell it (row ids, identifier columns that
are not selected), a row removed under one identity may equal a row added under another, in another reduce partition.
Coalesce finds these, over all map outputs, and tells each range which of its rows are cancelled elsewhere.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.batch.context import BatchContext
from icefloe.batch.extents import load_extents
from icefloe.batch.layout import reidentified_key
from icefloe.batch.range_rows import RangeRows
from icefloe.batch.shuffled_rows import ShuffledRows
from icefloe.changes.consolidate import consolidate
from icefloe.changes.hash_slice import HashSlice
from icefloe.changes.reidentified import cancelled_elsewhere, combined_hashes
from icefloe.changes.row_hash import RowHashes, row_hashes
from icefloe.shuffle.blocks import decode_block, encode_block
from icefloe.shuffle.extents import RangeExtents
from icefloe.shuffle.ranges import CoalescePlan
from icefloe.shuffle.reduce_ids import reduce_ids

__all__ = ["Reidentified", "load_reidentified", "write_reidentified"]

logger = logging.getLogger(__name__)

_BYTES_PER_ROW: Final = 128
"""Two hashes, ordinal and weight of a row, and what comparing them needs."""
_MAX_BYTES: Final = 1 << 31
_SCHEMA: Final = pa.schema(
    [
        *(pa.field(name, pa.uint64()) for name in ("row_high", "row_low", "identity_high", "identity_low")),
        pa.field("change_ordinal", pa.int32()),
        pa.field("weight", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reidentified:
    """What to add to the weights of rows of one range; all arrays have one length.

    Attributes:
        row_hashes: of what is delivered of the rows.
        identity_hashes: that routed them.
        change_ordinals: of each; 0 where changes are net.
        weights: to add.
    """

    row_hashes: RowHashes
    identity_hashes: RowHashes
    change_ordinals: NDArray[np.int32]
    weights: NDArray[np.int64]

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """All of them."""
        return cls(
            row_hashes=RowHashes.concat([part.row_hashes for part in parts]),
            identity_hashes=RowHashes.concat([part.identity_hashes for part in parts]),
            change_ordinals=np.concatenate([np.zeros(0, np.int32), *(part.change_ordinals for part in parts)]),
            weights=np.concatenate([np.zeros(0, np.int64), *(part.weights for part in parts)]),
        )

    def take(self, positions: NDArray[np.int64]) -> Self:
        """Those at some positions."""
        return type(self)(
            row_hashes=self.row_hashes.take(positions),
            identity_hashes=self.identity_hashes.take(positions),
            change_ordinals=self.change_ordinals[positions],
            weights=self.weights[positions],
        )

    def to_bytes(self) -> bytes:
        """As one shuffle block, with its checksum."""
        lanes = (self.row_hashes.high, self.row_hashes.low, self.identity_hashes.high, self.identity_hashes.low)
        columns = [pa.array(values) for values in (*lanes, self.change_ordinals, self.weights)]
        return encode_block([pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)])

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """What ``to_bytes`` gave.

        Raises:
            CorruptBlockError: the bytes are other ones.
        """
        rows = pa.Table.from_batches(decode_block(data, _SCHEMA, max_bytes=_MAX_BYTES) if data else [], _SCHEMA)
        row_high, row_low, identity_high, identity_low, ordinals, weights = (each.to_numpy() for each in rows.columns)
        return cls(
            row_hashes=RowHashes(row_high, row_low),
            identity_hashes=RowHashes(identity_high, identity_low),
            change_ordinals=ordinals,
            weights=weights,
        )


def write_reidentified(context: BatchContext, plan: CoalescePlan, epoch: int) -> None:
    """Compares the rows of all map outputs across reduce partitions and writes for each range what is cancelled.

    Args:
        context: of the batch.
        plan: its ranges.
        epoch: of the extents to read.

    Raises:
        CorruptMapOutputError: names the map output to make again.
    """
    extents = [load_extents(context, each.range_id, epoch) for each in plan.ranges]
    rows = sum(extent.rows for each in extents for extent in each.extents)
    parts = HashSlice.slices(-(-rows * _BYTES_PER_ROW // context.plan.memory_bytes))
    found = Reidentified.concat([_cancelled(context, extents, part) for part in parts])
    partitions = reduce_ids(found.identity_hashes, plan.num_partitions)
    for each in plan.ranges:
        here = np.flatnonzero((partitions >= each.start) & (partitions < each.stop))
        context.store.create(reidentified_key(each.range_id), found.take(here).to_bytes())
    logger.info("batch %d: %d rows changed their identity only", context.plan.batch_number, len(found.weights) // 2)


def load_reidentified(context: BatchContext, range_id: int) -> Reidentified:
    """What is cancelled of a range's rows."""
    return Reidentified.from_bytes(context.store.get(reidentified_key(range_id)))


def _cancelled(context: BatchContext, extents: Sequence[RangeExtents], part: HashSlice) -> Reidentified:
    rows = Reidentified.concat([rows for each in extents for rows in _rows(context, each, part)])
    positions, changes = cancelled_elsewhere(
        row_hashes=rows.row_hashes,
        identity_hashes=rows.identity_hashes,
        change_ordinals=rows.change_ordinals,
        weights=rows.weights,
    )
    return replace(rows.take(positions), weights=changes)


def _rows(context: BatchContext, extents: RangeExtents, part: HashSlice) -> Iterator[Reidentified]:
    """The rows of a range, consolidated by row and identity, whose row hashes lie in a slice."""
    shuffled = ShuffledRows(shape=context.shape)
    pieces = RangeRows(context.store, extents, shuffled=shuffled, memory_bytes=context.plan.memory_bytes).pieces()
    for piece in pieces:
        weights, ordinals = (piece.column(index).to_numpy() for index in (-2, -1))
        if context.plan.is_net:
            ordinals = np.zeros_like(ordinals)
        rows = piece.select(range(piece.num_columns - 2))
        hashes, identities = row_hashes(shuffled.delivered(rows).columns), shuffled.identities(rows)
        positions, weights = consolidate(combined_hashes(hashes, identities), ordinals, weights)
        here = part.positions(hashes.take(positions))
        positions = positions[here]
        yield Reidentified(
            row_hashes=hashes.take(positions),
            identity_hashes=identities.take(positions),
            change_ordinals=ordinals[positions],
            weights=weights[here],
        )
