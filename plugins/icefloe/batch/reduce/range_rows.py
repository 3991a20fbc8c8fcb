"""The rows of a reduce range, in groups that keep each identity together."""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.batch.context.batch_folder import BatchFolder
from icefloe.batch.rows.row_reader import RowLimit
from icefloe.changes.consolidate import consolidate
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.shuffle.block_file import SpilledRows
from icefloe.shuffle.blocks import BlockRows
from icefloe.shuffle.extents import RangeExtents
from icefloe.shuffle.fetch import fetch_blocks

logger = logging.getLogger(__name__)

BYTES_PER_ROW: Final = 64
"""Hashes, weights and positions of a row, which its own bytes do not count."""
_PART_BITS: Final = 6
"""As many as `RangeExtents.places` looks at: rows are read in the order of its places."""
_NUM_PARTS: Final = 1 << _PART_BITS
_HASH_BITS: Final = 64
_LARGEST_HASH: Final = np.uint64((1 << _HASH_BITS) - 1)
_LARGEST_PIECE_BYTES: Final = 1 << 30
"""Limit of a piece, however much memory there is: Arrow takes rows from it by position without trouble."""

HashesOf = Callable[[pa.RecordBatch], RowHashes]


class HashPart(NamedTuple):
    """Rows of one part, in the order in which they came."""

    batches: Iterator[pa.RecordBatch]  # to be read before the next part
    fits: bool  # into memory; otherwise all rows have the same hash


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDivision:
    """Divides rows by hashes."""

    schema: pa.Schema
    memory_bytes: int  # of the task: a quarter for a piece, an eighth for rows on their way to disk

    @property
    def piece_bytes(self) -> int:
        """Bytes that fit into memory."""
        return min(self.memory_bytes // 4, _LARGEST_PIECE_BYTES)

    def spilled(self, num_parts: int) -> SpilledRows:
        """Room on local disk."""
        return SpilledRows(self.schema, num_parts, memory_bytes=self.memory_bytes // 8)

    def parts(self, batches: Iterable[pa.RecordBatch], hashes_of: HashesOf, *, depth: int = 0) -> Iterator[HashPart]:
        """The rows in the ascending order of their hashes' parts. Rows of one hash are in one part."""
        #   depth 0   000000..   000001..   000010..   000011..      64 parts in one file
        #   depth 1              000001 000000..                     only of a part that does not fit
        with self.spilled(_NUM_PARTS) as spilled:
            # By half of the hash and part: if both ends are the same, a part has one hash, which no bits divide.
            least, most = np.full((2, _NUM_PARTS), _LARGEST_HASH), np.zeros((2, _NUM_PARTS), np.uint64)
            for batch in batches:
                hashes = hashes_of(batch)
                numbers = _next_bits(hashes, depth)
                for half, values in enumerate((hashes.high, hashes.low)):
                    np.minimum.at(least[half], numbers, values)
                    np.maximum.at(most[half], numbers, values)
                spilled.add(batch, numbers)
            is_one = (least == most).all(axis=0)
            spilled.flush()
            sizes = spilled.content_bytes + spilled.rows * BYTES_PER_ROW
            # Without further bits, different hashes have the same upper half. Those rows stay together.
            is_last = (depth + 1) * _PART_BITS >= _HASH_BITS
            for number in np.flatnonzero(spilled.rows).tolist():
                rows = spilled.batches(number)
                if sizes[number] <= self.piece_bytes:
                    yield HashPart(rows, fits=True)
                elif is_one[number] or is_last:
                    yield HashPart(rows, fits=not is_one[number])
                else:
                    yield from self.parts(rows, hashes_of, depth=depth + 1)


def _next_bits(hashes: RowHashes, depth: int) -> NDArray[np.int32]:
    # From the top, because a reduce partition is the lower bits: by those, all rows would be in one part.
    shift = max(_HASH_BITS - (depth + 1) * _PART_BITS, 0)
    return (hashes.high >> np.uint64(shift) & np.uint64(_NUM_PARTS - 1)).astype(np.int32)


class RowGroup(NamedTuple):
    """All rows of some identities."""

    pieces: Iterator[pa.Table]  # with weight and change ordinal; to be read before the next group
    # True: one identity, in pieces that ascend by row hash, with equal rows in one piece. Otherwise one piece.
    is_torn: bool = False


class RangeRows:
    """The rows of one reduce range before they are consolidated; large partitions are divided on local disk."""

    def __init__(self, folder: BatchFolder, extents: RangeExtents) -> None:
        self._folder = folder
        self._extents = extents
        self._shape = folder.shape
        self._schema = BlockRows.schema(folder.shape.shuffled_schema)
        # The map tasks checked each row too, perhaps with more memory than this task has.
        self._bound = RowLimit(memory_bytes=folder.memory_bytes)
        # By identity hash, in whose order changes leave, as from one piece; one identity that is too large by row hash.
        self._division = RowDivision(schema=self._schema, memory_bytes=folder.memory_bytes)

    def groups(self) -> Iterator[RowGroup]:
        """Groups of rows: every row of an identity is in the same one."""
        fetch_bytes, machine = max(1, self._folder.memory_bytes // 8), self._folder.machine
        blocks = fetch_blocks(
            self._folder.store, self._extents, self._schema, max_fetch_bytes=fetch_bytes, machine=machine
        )
        for reduce_id, of_partition in groupby(blocks, key=lambda block: block.reduce_id):
            batches = self._checked(chain.from_iterable(block.batches for block in of_partition))
            kept, fits = self._kept(batches)
            if fits:
                yield RowGroup(iter([self._table(kept)]))
                continue
            logger.info("range %d: partition %d is divided on local disk", self._extents.range_id, reduce_id)
            rows = chain(_given_away(kept), batches)
            for part in self._division.parts(rows, self._identities):
                if part.fits:
                    yield RowGroup(iter([self._table(part.batches)]))
                else:
                    yield RowGroup(self._torn(part.batches), is_torn=True)

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
        if not self._shape.has_identity:
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
        """Copies of one row: when they fill the memory, one is left for each ordinal."""
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
        return self._shape.identities(BlockRows.of(batch).rows)

    def _row_hashes(self, batch: pa.RecordBatch, *, key: int | None = None) -> RowHashes:
        return self._shape.row_hashes(BlockRows.of(batch).rows, key=key)

    def _table(self, batches: Iterable[pa.RecordBatch]) -> pa.Table:
        return pa.Table.from_batches(batches, self._schema)


def _given_away(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Forgets each as it is taken."""
    batches.reverse()
    while batches:
        yield batches.pop()
