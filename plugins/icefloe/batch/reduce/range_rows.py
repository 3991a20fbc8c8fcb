"""The rows of a reduce range, in pieces that keep each identity together."""

import logging
import os
from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.batch.rows.memory_limit import RowLimit
from icefloe.batch.rows.row_shape import RowShape
from icefloe.batch.sums import Sums
from icefloe.changes.consolidate import consolidate
from icefloe.changes.identity_moves import combined_hashes
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.errors import TerminalError
from icefloe.node.machine import Machine
from icefloe.shuffle.block_file import SpilledRows
from icefloe.shuffle.blocks import BlockRows, block_schema
from icefloe.shuffle.extents import RangeExtents
from icefloe.shuffle.fetch import fetch_blocks
from icefloe.storage.local_folders import local_folders
from icefloe.storage.store import Store
from icefloe.units import format_bytes

logger = logging.getLogger(__name__)

BYTES_PER_ROW: Final = 64
"""Hashes, weights and positions of a row, which its own bytes do not count."""
_PART_BITS: Final = 6
"""As many as divide a hot reduce partition into its 64 parts: `RangeRows` relies on it."""
_NUM_PARTS: Final = 1 << _PART_BITS
_HASH_BITS: Final = 64
_LARGEST_PIECE_BYTES: Final = 1 << 30
"""Limit of a piece, however much memory there is: Arrow takes rows from it by position without trouble."""


def large_identity(memory_bytes: int) -> TerminalError:
    """The error of rows that must stay together, and do not fit into memory."""
    return TerminalError(
        f"one identity has more changed rows in this batch than shuffle.memory_bytes ({format_bytes(memory_bytes)}) "
        "holds: raise it (under Spark spark.executor.memoryOverhead too), or start over with identifier_columns whose "
        "values fewer rows share"
    )


class RangeRows:
    """The rows of one reduce range before they are consolidated.

    A reduce partition that does not fit into memory is divided on local disk by identity hash, and read in the order of
    the hashes, so changes leave in the same order as from one piece. One identity that does not fit is refused.

    A range of parts of a partition keeps its own rows of blocks that were not divided. ``shared_sums`` has their sums,
    once all pieces are read: the extents cannot say them.

    Args:
        memory_bytes: of the task; an eighth of it is for bytes fetched, one for rows on their way to disk, a quarter
            for a piece.
    """

    def __init__(
        self,
        store: Store,
        extents: RangeExtents,
        *,
        shape: RowShape,
        memory_bytes: int,
        machine: Machine | None = None,
    ) -> None:
        self._store = store
        self._machine = machine
        self._extents = extents
        self._schema = block_schema(shape.shuffled_schema)
        self._shape = shape
        self._fetch_bytes = max(1, memory_bytes // 8)
        # The map tasks checked each row too, perhaps with more memory than this task has.
        self._bound = RowLimit(memory_bytes=memory_bytes)
        self._memory_bytes = memory_bytes
        self._piece_bytes = min(memory_bytes // 4, _LARGEST_PIECE_BYTES)
        # In a range of one part, all rows have the same first six bits, by which they would be divided first: a hot
        # partition has as many parts as a division (`divided_partitions.NUM_PARTS`).
        self._depth = 1 if extents.parts is not None and extents.parts[1] - extents.parts[0] == 1 else 0
        self.shared_sums = Sums()

    def pieces(self) -> Iterator[pa.Table]:
        """Rows with weight and change ordinal that fit into memory: every row of an identity is in the same piece."""
        blocks = fetch_blocks(
            self._store, self._extents, self._schema, max_fetch_bytes=self._fetch_bytes, machine=self._machine
        )
        for reduce_id, of_partition in groupby(blocks, key=lambda block: block.reduce_id):
            own = (self._own(block.batches) if block.is_shared else block.batches for block in of_partition)
            batches = self._checked(chain.from_iterable(own))
            kept, fits = self._kept(batches)
            if fits:
                yield self._table(kept)
                continue
            logger.info("range %d: partition %d is divided on local disk", self._extents.range_id, reduce_id)
            yield from self._divided(chain(_given_away(kept), batches), self._depth)

    def _divided(self, batches: Iterable[pa.RecordBatch], depth: int) -> Iterator[pa.Table]:
        """The rows in the ascending order of their identity hashes."""
        #   depth 0   000000..   000001..   000010..   000011..      64 parts in one file
        #   depth 1              000001 000000..                     only of a part that does not fit
        lowest, highest = np.full(_NUM_PARTS, np.iinfo(np.uint64).max), np.zeros(_NUM_PARTS, np.uint64)
        disks = local_folders(os.environ)
        with SpilledRows(
            self._schema, _NUM_PARTS, memory_bytes=self._memory_bytes // 8, disk=disks[depth % len(disks)]
        ) as spilled:
            for batch in batches:
                hashes = self._identities(batch).high
                numbers = _next_bits(hashes, depth)
                np.minimum.at(lowest, numbers, hashes)
                np.maximum.at(highest, numbers, hashes)
                spilled.add(batch, numbers)
            spilled.flush()
            sizes = spilled.content_bytes + spilled.rows * BYTES_PER_ROW
            for number in np.flatnonzero(spilled.rows).tolist():
                rows = spilled.batches(number)
                if sizes[number] <= self._piece_bytes:
                    yield self._table(rows)
                elif lowest[number] < highest[number]:
                    yield from self._divided(rows, depth + 1)
                else:
                    yield self._table(self._added_up(rows))

    def _own(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The range's rows of a shared block."""
        for batch in batches:
            rows = batch.take(pa.array(self._extents.own_rows(self._identities(batch))))
            _, weights, ordinals = BlockRows.of(rows)
            self.shared_sums.add_rows(self._row_hashes(rows), ordinals, weights)
            if rows.num_rows:
                yield rows

    def _checked(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self._bound.check(batch, place=f"range {self._extents.range_id} of the shuffle")
            yield batch

    def _kept(self, batches: Iterator[pa.RecordBatch]) -> tuple[list[pa.RecordBatch], bool]:
        """The first batches, and True if all fit into memory."""
        kept: list[pa.RecordBatch] = []
        kept_bytes = 0
        for batch in batches:
            kept.append(batch)
            kept_bytes += batch.nbytes + batch.num_rows * BYTES_PER_ROW
            if kept_bytes > self._piece_bytes:
                return kept, False
        return kept, True

    def _added_up(self, batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Rows of one identity: when they fill the memory, one of equal rows is left for each ordinal."""
        kept: list[pa.RecordBatch] = []
        kept_bytes = 0
        for batch in batches:
            kept.append(batch)
            kept_bytes += batch.nbytes + batch.num_rows * BYTES_PER_ROW
            if kept_bytes > self._piece_bytes:
                kept = [self._consolidated(pa.concat_batches(kept))]
                kept_bytes = kept[0].nbytes + kept[0].num_rows * BYTES_PER_ROW
                if kept_bytes > self._piece_bytes:
                    raise large_identity(self._memory_bytes)
        return kept

    def _consolidated(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        _, weights, ordinals = BlockRows.of(rows)
        keys = combined_hashes(self._row_hashes(rows), self._identities(rows))
        positions, sums = consolidate(keys, ordinals, weights)
        place = rows.num_columns - 2
        columns = rows.take(pa.array(positions)).columns
        columns[place] = pa.array(sums, pa.int64())
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _identities(self, batch: pa.RecordBatch) -> RowHashes:
        return self._shape.identities(BlockRows.of(batch).rows)

    def _row_hashes(self, batch: pa.RecordBatch) -> RowHashes:
        return self._shape.row_hashes(BlockRows.of(batch).rows)

    def _table(self, batches: Iterable[pa.RecordBatch]) -> pa.Table:
        return pa.Table.from_batches(batches, self._schema)


def _given_away(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Forgets each as it is taken."""
    batches.reverse()
    while batches:
        yield batches.pop()


def _next_bits(hashes: NDArray[np.uint64], depth: int) -> NDArray[np.int32]:
    # From the top, because a reduce partition is the lower bits: by those, all rows would be in one part.
    shift = max(_HASH_BITS - (depth + 1) * _PART_BITS, 0)
    return (hashes >> np.uint64(shift) & np.uint64(_NUM_PARTS - 1)).astype(np.int32)
