"""The first part of phase two: one hash range, from hash rows to the rows that cancel across identities.

The delivered columns may not show the identity, as with row ids, or identifier columns that are not selected. A row
removed under one identity may then equal a row added under another one, in another reduce range. Their hash rows are
in the same hash range.
"""

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.batch.batch_keys import moves_key
from icefloe.batch.context.batch_folder import BatchFolder
from icefloe.batch.reduce.batch_extents import BatchExtents
from icefloe.batch.reduce.coalesce_map_outputs import load_coalesce_plan
from icefloe.batch.reduce.moves import SpilledMoves, WeightedHashes, has_whole_moves, write_moves_file
from icefloe.batch.sums import Sums
from icefloe.changes.consolidate import consolidate
from icefloe.changes.identity_moves import SharedWeights, combined_hashes
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.shuffle.blocks import HashRows
from icefloe.shuffle.coalesce import CoalescePlan
from icefloe.shuffle.extents import RangeExtents
from icefloe.shuffle.fetch import fetch_blocks
from icefloe.storage.local_folders import local_folders, on_local_disk, task_folder

__all__ = ["write_moves"]

logger = logging.getLogger(__name__)

_BYTES_PER_ROW: Final = 192
"""Two hashes, ordinal and weight of a row, and memory to consolidate and compare them."""
_MAX_SLICE_BITS: Final = 10
_LEAST_ROWS: Final = 16
_CANNOT_KEEP: Final = "the rows that cancel across identities cannot be written to local disk"
_PIECE_ROWS: Final = 1 << 18


@contextmanager
def matched_rows(
    pieces: Iterable[WeightedHashes], *, rows: int, coalesce_plan: CoalescePlan, memory_bytes: int
) -> Iterator[SpilledMoves]:
    """The rows that cancel, by reduce range; on local disk until the context ends."""
    bits = min(_MAX_SLICE_BITS, (max(1, -(-rows * _BYTES_PER_ROW // memory_bytes)) - 1).bit_length())
    disk = local_folders(os.environ)[0]
    #   pieces -> slices by row hash: equal rows meet -> what cancels -> files by range, by identity hash
    # Only hashes go through it: 44 bytes on disk for a row of any size.
    with SpilledMoves(disk) as slices, SpilledMoves(disk) as found:
        for piece in pieces:
            # If not all rows fit into memory, many may be copies of one row of one identity, which no slice divides.
            kept = _consolidated(piece) if bits else piece
            slices.add(kept, _first_bits(kept.row_hashes, bits), 1 << bits)
        most_rows = max(_LEAST_ROWS, memory_bytes // _BYTES_PER_ROW)
        for number in range(1 << bits):
            for cancelled in _cancelled(slices, number, most_rows=most_rows, disk=disk):
                found.add(cancelled, coalesce_plan.range_ids(cancelled.identity_hashes), len(coalesce_plan.ranges))
        yield found


def _cancelled(slices: SpilledMoves, number: int, *, most_rows: int, disk: Path | None) -> Iterator[WeightedHashes]:
    rows = slices.rows_of(number)
    if rows <= most_rows:
        left = _consolidated(slices.of(number))
        yield from _changed(lambda: [left])
        return
    # Many identities have equal rows. So the slice is cut by identity, and the parts are read twice.
    bits = min(_MAX_SLICE_BITS, (-(-rows // most_rows) - 1).bit_length())
    with SpilledMoves(disk) as parts:
        for piece in slices.pieces_of(number, most_rows):
            parts.add(piece, _first_bits(piece.identity_hashes, bits), 1 << bits)
        yield from _changed(lambda: (_consolidated(parts.of(part)) for part in range(1 << bits)))


def _changed(pieces: Callable[[], Iterable[WeightedHashes]]) -> Iterator[WeightedHashes]:
    """Pieces are read twice: for the common weight of equal rows, then for the identities it is taken from."""
    shared = SharedWeights()
    for rows in pieces():
        shared.add(rows.row_hashes, rows.change_ordinals, rows.weights)
    for rows in pieces():
        positions, changes = shared.cancelled(
            row_hashes=rows.row_hashes,
            identity_hashes=rows.identity_hashes,
            change_ordinals=rows.change_ordinals,
            weights=rows.weights,
        )
        yield replace(rows.take(positions), weights=changes)


def _consolidated(rows: WeightedHashes) -> WeightedHashes:
    keys = combined_hashes(rows.row_hashes, rows.identity_hashes)
    positions, weights = consolidate(keys, rows.change_ordinals, rows.weights)
    return replace(rows.take(positions), weights=weights)


def _first_bits(hashes: RowHashes, bits: int) -> NDArray[np.int32]:
    """Equal hashes are in the same slice."""
    return (hashes.high >> np.uint64(64 - bits)).astype(np.int32) if bits else np.zeros(len(hashes), np.int32)


def write_moves(folder: BatchFolder, range_id: int, *, epoch: int) -> None:
    """Writes the moves file of one hash range, or adopts an existing one."""
    # Files of an earlier attempt count, whichever epoch it read: every attempt chooses the same rows. So a damaged file
    # may also be replaced while somebody reads it.
    key, store = moves_key(range_id), folder.store
    if has_whole_moves(store, key):
        return
    extents, coalesce_plan = BatchExtents(folder, epoch).of(range_id), load_coalesce_plan(folder)
    disk = local_folders(os.environ)[0]
    rows = extents.most_rows
    with ExitStack() as owned:
        found = owned.enter_context(
            matched_rows(
                _pieces(folder, extents), rows=rows, coalesce_plan=coalesce_plan, memory_bytes=folder.memory_bytes
            )
        )
        with on_local_disk(_CANNOT_KEEP):
            path = owned.enter_context(task_folder("moves", disk)) / "moves"
            cancelled = write_moves_file(path, found, num_ranges=len(coalesce_plan.ranges))
        if not store.create(key, path) and not has_whole_moves(store, key):
            store.put(key, path)
    logger.info("hash range %d: %d of %d rows changed their identity only", range_id, cancelled, rows)


def _pieces(folder: BatchFolder, extents: RangeExtents) -> Iterator[WeightedHashes]:
    """Proven to be all hash rows of the range after the last."""
    sums = Sums()
    for piece in _tables(folder, extents):
        rows = HashRows.of(piece)
        sums.add_rows(rows.row_hashes, rows.change_ordinals, rows.weights)
        moves = WeightedHashes(**rows._asdict())
        yield replace(moves, change_ordinals=np.zeros_like(rows.change_ordinals)) if folder.plan.is_net else moves
    what = f"hash range {extents.range_id} of batch {folder.plan.batch_number}"
    sums.require(Sums(extents.ordinals), what=what)


def _tables(folder: BatchFolder, extents: RangeExtents) -> Iterator[pa.RecordBatch]:
    """In batches of about `_PIECE_ROWS`: each is cut into slices, and blocks may be small."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    blocks = fetch_blocks(
        folder.store,
        extents,
        HashRows.schema(),
        max_fetch_bytes=max(1, folder.memory_bytes // 8),
        machine=folder.machine,
    )
    for batch in (batch for block in blocks for batch in block.batches):
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= _PIECE_ROWS:
            yield pa.concat_batches(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pa.concat_batches(waiting)
