"""The rows of a reduce range, fetched in pieces that fit into memory and keep each identity together."""

import logging
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

import numpy as np
import pyarrow as pa

from icefloe.batch.rows.row_bound import RowBound
from icefloe.batch.rows.shuffled_form import ShuffledForm
from icefloe.changes.hash_slice import HashSlice
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.node.machine import Machine
from icefloe.shuffle.blocks import BlockRows, block_schema
from icefloe.shuffle.extents import RangeExtents
from icefloe.shuffle.fetch import FetchedBlock, fetch_blocks
from icefloe.storage.store import Store

logger = logging.getLogger(__name__)

_LARGEST_PIECE_BYTES: Final = 1 << 30
"""Limit of a piece, however much memory there is: Arrow takes rows from it by position without trouble."""


class RangeRows:
    """The rows of one reduce range before they are consolidated.

    A reduce partition that does not fit into memory is fetched once for each slice of its identity hashes, in the order
    of the hashes. So changes leave in the same order as from one piece. An identity is always in one piece, whatever
    its size.

    Args:
        store: the place of the shuffle's map outputs.
        extents: extents to fetch.
        shuffled: the form of shuffled rows.
        memory_bytes: memory of the task; an eighth of it is for bytes fetched, a quarter for a piece.
        machine: reads the map outputs that are at nodes.
    """

    def __init__(
        self,
        store: Store,
        extents: RangeExtents,
        *,
        shuffled: ShuffledForm,
        memory_bytes: int,
        machine: Machine | None = None,
    ) -> None:
        self._store = store
        self._machine = machine
        self._extents = extents
        self._schema = block_schema(shuffled.schema)
        self._shuffled = shuffled
        self._fetch_bytes = max(1, memory_bytes // 8)
        # The map tasks checked each row too, perhaps with more memory than this task has.
        self._bound = RowBound(memory_bytes=memory_bytes)
        self._piece_bytes = min(memory_bytes // 4, _LARGEST_PIECE_BYTES)

    def pieces(self) -> Iterator[pa.Table]:
        """Rows with weight and change ordinal; every row of an identity is in the same piece.

        Raises:
            CorruptMapOutputError: names the map output to make again.
            RowTooLargeError: a row needs more memory than the task has; the sentence names it.
        """
        for reduce_id, blocks in groupby(self._blocks(self._extents), key=lambda block: block.reduce_id):
            rows = self._collect(blocks, HashSlice())
            if rows is not None:
                yield rows
            else:
                logger.info("range %d: partition %d is read in slices", self._extents.range_id, reduce_id)
                yield from self._slices(self._extents.of_partition(reduce_id), HashSlice())

    def _slices(self, partition: RangeExtents, hash_slice: HashSlice) -> Iterator[pa.Table]:
        # A partition that is too large as a whole is read as its halves 0.. and 1.., a half that is too large as 00..
        # and 01.. Lower half first, so that changes leave in the order of their identity hashes.
        for half in hash_slice.halves():
            rows = self._collect(self._blocks(partition), half)
            if rows is None:
                yield from self._slices(partition, half)
            elif rows.num_rows:
                yield rows

    def _collect(self, blocks: Iterable[FetchedBlock], hash_slice: HashSlice) -> pa.Table | None:
        """The rows of a slice; None if they are too many and not all of one identity."""
        kept: list[pa.RecordBatch] = []
        kept_bytes = 0
        seen = _SeenHashes()
        for batch in (batch for block in blocks for batch in block.batches):
            self._bound.check(batch, place=f"range {self._extents.range_id} of the shuffle")
            rows = batch if hash_slice.is_whole else self._rows_within(batch, hash_slice, seen)
            kept.append(rows)
            kept_bytes += rows.nbytes
            # Rows of one identity stay together whatever they take: pairs need all of them, and no further bit
            # separates them.
            if kept_bytes > self._piece_bytes and (hash_slice.is_whole or seen.differ):
                return None
        return pa.Table.from_batches(kept, self._schema)

    def _rows_within(self, batch: pa.RecordBatch, hash_slice: HashSlice, seen: "_SeenHashes") -> pa.RecordBatch:
        hashes = self._shuffled.identities(BlockRows.of(batch).rows)
        in_slice = hash_slice.positions(hashes)
        seen.add(hashes.take(in_slice))
        return batch.take(pa.array(in_slice))

    def _blocks(self, extents: RangeExtents) -> Iterator[FetchedBlock]:
        return fetch_blocks(
            self._store, extents, self._schema, max_fetch_bytes=self._fetch_bytes, machine=self._machine
        )


class _SeenHashes:
    """The hashes seen so far. They ``differ`` if further bits could separate them."""

    def __init__(self) -> None:
        self._first: np.uint64 | None = None
        self.differ = False

    def add(self, hashes: RowHashes) -> None:
        if len(hashes):
            self._first = hashes.high[0] if self._first is None else self._first
            self.differ = self.differ or bool((hashes.high != self._first).any())
