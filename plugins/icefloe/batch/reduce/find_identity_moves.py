"""Equal rows that a step moves from one identity to another. They are no change, but no reduce range sees both.

Rows are routed by their identity. The delivered columns may not show it, as with row ids, or identifier columns that
are not selected. A row removed under one identity may then equal a row added under another identity, in another reduce
partition. Coalesce finds such rows over all map outputs and writes for each range which of its rows are cancelled
elsewhere.
"""

import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from icefloe.batch.batch_keys import identity_moves_key
from icefloe.batch.context.batch_folder import BatchFileMissingError, BatchFolder
from icefloe.batch.reduce.identity_move_files import IdentityMoveFiles, IdentityMoves
from icefloe.batch.reduce.range_extents import BatchExtents
from icefloe.batch.reduce.range_rows import RangeRows
from icefloe.changes.consolidate import consolidate
from icefloe.changes.identity_moves import cancelled_elsewhere, combined_hashes
from icefloe.changes.row_hash.row_hashes import RowHashes, row_hashes
from icefloe.shuffle.blocks import BlockRows, CorruptBlockError
from icefloe.shuffle.extents import RangeExtents
from icefloe.shuffle.reduce_ranges import CoalescePlan
from icefloe.storage.local_folders import local_folders
from icefloe.storage.parallel import map_parallel
from icefloe.storage.store import KeyMissingError

logger = logging.getLogger(__name__)

_BYTES_PER_ROW: Final = 128
"""Two hashes, ordinal and weight of a row, and memory to compare them."""
_MAX_SLICE_BITS: Final = 10


def write_identity_moves(folder: BatchFolder, plan: CoalescePlan, epoch: int) -> None:
    """Compares the rows of all map outputs across reduce partitions and writes the cancelled rows of each range.

    The map outputs are read once. The hashes of their rows go to local disk and are compared slice by slice.

    Args:
        folder: folder of the batch.
        plan: its ranges.
        epoch: epoch of the extents to read.

    Raises:
        CorruptMapOutputError: names the map output to make again.
    """
    # Files of an earlier attempt count, whichever epoch it read: every attempt chooses the same rows. So a damaged file
    # may also be replaced while somebody reads it.
    missing = _missing(folder, plan)
    if not missing:
        return
    extents = BatchExtents(folder, epoch)
    bits = min(_MAX_SLICE_BITS, (max(1, -(-extents.rows * _BYTES_PER_ROW // folder.memory_bytes)) - 1).bit_length())
    disk = next(iter(local_folders(os.environ)), None)
    #   map outputs -> slices by row hash: equal rows meet -> what cancels -> files by range, by identity hash
    # Only hashes go through it: 44 bytes on disk for a row of any size.
    with IdentityMoveFiles(disk) as slices, IdentityMoveFiles(disk) as found:
        for part in (part for each in plan.ranges for part in _rows(folder, extents.of(each.range_id))):
            slices.add(part, _first_bits(part.row_hashes, bits), 1 << bits)
        cancelled_rows = 0
        for number in range(1 << bits):
            cancelled = _cancelled(slices.of(number))
            cancelled_rows += len(cancelled.weights)
            found.add(cancelled, plan.range_ids(cancelled.identity_hashes), len(plan.ranges))
        at_once = folder.store.requests_at_once
        map_parallel(lambda range_id: _write(folder, range_id, found), missing, at_once=at_once)
    logger.info("batch %d: %d rows changed their identity only", folder.plan.batch_number, cancelled_rows // 2)


def load_identity_moves(folder: BatchFolder, range_id: int) -> IdentityMoves:
    """The rows of a range that are cancelled elsewhere.

    Raises:
        BatchFileMissingError: their file is gone or damaged.
    """
    key = identity_moves_key(range_id)
    what = f"{folder.store.url}/{key}, with the rows that range {range_id} has in common with other ranges,"
    try:
        return IdentityMoves.from_bytes(folder.store.get(key))
    except KeyMissingError as cause:
        raise BatchFileMissingError(f"{what} is missing: run coalesce again", url=folder.store.url, key=key) from cause
    except CorruptBlockError as cause:
        raise BatchFileMissingError(f"{what} is damaged: run coalesce again", url=folder.store.url, key=key) from cause


def _missing(folder: BatchFolder, plan: CoalescePlan) -> list[int]:
    """The ranges whose file is missing or damaged."""

    def is_missing(range_id: int) -> bool:
        try:
            load_identity_moves(folder, range_id)
        except BatchFileMissingError:
            return True
        return False

    range_ids = [each.range_id for each in plan.ranges]
    found = map_parallel(is_missing, range_ids, at_once=folder.store.requests_at_once)
    return [range_id for range_id, is_needed in zip(range_ids, found, strict=True) if is_needed]


def _write(folder: BatchFolder, range_id: int, found: IdentityMoveFiles) -> None:
    folder.store.put(identity_moves_key(range_id), found.of(range_id).to_bytes())


def _cancelled(rows: IdentityMoves) -> IdentityMoves:
    positions, changes = cancelled_elsewhere(
        row_hashes=rows.row_hashes,
        identity_hashes=rows.identity_hashes,
        change_ordinals=rows.change_ordinals,
        weights=rows.weights,
    )
    return replace(rows.take(positions), weights=changes)


def _rows(folder: BatchFolder, extents: RangeExtents) -> Iterator[IdentityMoves]:
    """The rows of a range, consolidated by row and identity, piece by piece."""
    shuffled = folder.shuffled_form
    fetched = RangeRows(
        folder.store, extents, shuffled=shuffled, memory_bytes=folder.memory_bytes, machine=folder.machine
    )
    for piece in fetched.pieces():
        rows, weights, ordinals = BlockRows.of(piece)
        if folder.plan.is_net:
            ordinals = np.zeros_like(ordinals)
        hashes, identities = row_hashes(shuffled.without_identity(rows).columns), shuffled.identities(rows)
        positions, weights = consolidate(combined_hashes(hashes, identities), ordinals, weights)
        yield IdentityMoves(
            row_hashes=hashes.take(positions),
            identity_hashes=identities.take(positions),
            change_ordinals=ordinals[positions],
            weights=weights,
        )


def _first_bits(hashes: RowHashes, bits: int) -> NDArray[np.int32]:
    """The slice of each hash; equal hashes are in the same slice."""
    return (hashes.high >> np.uint64(64 - bits)).astype(np.int32) if bits else np.zeros(len(hashes), np.int32)
