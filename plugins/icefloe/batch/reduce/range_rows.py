"""The rows of a reduce range, in groups that keep each identity together."""

import logging
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain, groupby
from typing import NamedTuple

import pyarrow as pa

from icefloe.audit.sums import Sums
from icefloe.batch.reduce.divided_rows import BYTES_PER_ROW, RowDivision
from icefloe.batch.rows.memory_limit import RowLimit
from icefloe.batch.rows.shuffled_form import ShuffledForm
from icefloe.changes.consolidate import consolidate
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.node.machine import Machine
from icefloe.shuffle.blocks import BlockRows, block_schema
from icefloe.shuffle.extents import RangeExtents
from icefloe.shuffle.fetch import fetch_blocks
from icefloe.storage.store import Store

logger = logging.getLogger(__name__)


class RowGroup(NamedTuple):
    """All rows of some identities.

    Attributes:
        pieces: the rows with weight and change ordinal; they have to be read before the next group.
        is_torn: True if all rows are of one identity that does not fit into memory. They come in pieces, in ascending
            order of their row hashes; equal rows are in one piece. Otherwise there is one piece.
    """

    pieces: Iterator[pa.Table]
    is_torn: bool = False


class RangeRows:
    """The rows of one reduce range before they are consolidated.

    A reduce partition that does not fit into memory is divided on local disk by identity hash. Its parts are read in
    the order of the hashes, so changes leave in the same order as from one piece. One identity that does not fit is
    divided by row hash.

    A range of parts of a partition also reads the blocks of map outputs that did not divide it. It keeps its own rows
    of them. ``shared_sums`` has their sums, once all groups are read: the extents cannot say them.

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
        self._bound = RowLimit(memory_bytes=memory_bytes)
        self._division = RowDivision(schema=self._schema, memory_bytes=memory_bytes)
        # In a range of one part, all rows have the same first six bits, by which `RowDivision` would divide them first:
        # a hot partition has as many parts as a division (`divided_partitions.NUM_PARTS`).
        self._depth = 1 if extents.parts is not None and extents.parts[1] - extents.parts[0] == 1 else 0
        self.shared_sums = Sums()

    def pieces(self) -> Iterator[pa.Table]:
        """The pieces of all groups. Equal rows of one identity are in one piece. Errors are those of `groups`."""
        for group in self.groups():
            yield from group.pieces

    def groups(self) -> Iterator[RowGroup]:
        """All rows; every row of an identity is in the same group.

        Raises:
            CorruptMapOutputError: names the map output to make again.
            RowTooLargeError: a row needs more memory than the task has; the sentence names it.
            TransientError: the store or local disk failed.
        """
        blocks = fetch_blocks(
            self._store, self._extents, self._schema, max_fetch_bytes=self._fetch_bytes, machine=self._machine
        )
        for reduce_id, of_partition in groupby(blocks, key=lambda block: block.reduce_id):
            own = (self._own(block.batches) if block.is_shared else block.batches for block in of_partition)
            batches = self._checked(chain.from_iterable(own))
            kept, fits = self._kept(batches)
            if fits:
                yield RowGroup(iter([self._table(kept)]))
                continue
            logger.info("range %d: partition %d is divided on local disk", self._extents.range_id, reduce_id)
            rows = chain(_given_away(kept), batches)
            for part in self._division.parts(rows, self._identities, depth=self._depth):
                if part.fits:
                    yield RowGroup(iter([self._table(part.batches)]))
                else:
                    yield RowGroup(self._torn(part.batches), is_torn=True)

    def _own(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the range in a block that other ranges share."""
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
            if kept_bytes > self._division.piece_bytes:
                return kept, False
        return kept, True

    def _torn(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        """The rows of one identity in pieces."""
        if not self._shuffled.has_identity:
            # The whole row is its identity, so these are copies of one row.
            yield self._table(self._added_up(batches))
            return
        # In an order that is the same in all batches. Rows are told apart by their own hashes, which nobody can make
        # collide.
        for part in self._division.parts(batches, partial(self._row_hashes, key=RowHashes.PUBLIC_KEY)):
            if part.fits:
                yield self._table(part.batches)
                continue
            for copies in self._division.parts(part.batches, self._row_hashes):
                yield self._table(copies.batches if copies.fits else self._added_up(copies.batches))

    def _added_up(self, batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Copies of one row: whenever they fill the memory, one is left for each change ordinal."""
        kept: list[pa.RecordBatch] = []
        kept_bytes = 0
        for batch in batches:
            kept.append(batch)
            kept_bytes += batch.nbytes + batch.num_rows * BYTES_PER_ROW
            if kept_bytes > self._division.piece_bytes:
                kept = [self._consolidated(pa.concat_batches(kept))]
                kept_bytes = kept[0].nbytes
        return kept

    def _consolidated(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        _, weights, ordinals = BlockRows.of(rows)
        positions, sums = consolidate(self._row_hashes(rows), ordinals, weights)
        place = rows.num_columns - 2
        columns = rows.take(pa.array(positions)).columns
        columns[place] = pa.array(sums, pa.int64())
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _identities(self, batch: pa.RecordBatch) -> RowHashes:
        return self._shuffled.identities(BlockRows.of(batch).rows)

    def _row_hashes(self, batch: pa.RecordBatch, *, key: int | None = None) -> RowHashes:
        return self._shuffled.row_hashes(BlockRows.of(batch).rows, key=key)

    def _table(self, batches: Iterable[pa.RecordBatch]) -> pa.Table:
        return pa.Table.from_batches(batches, self._schema)


def _given_away(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches, each forgotten as it is taken."""
    batches.reverse()
    while batches:
        yield batches.pop()
