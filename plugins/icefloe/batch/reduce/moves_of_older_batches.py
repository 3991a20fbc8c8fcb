"""Equal rows that a step moves from one identity to another, found by coalesce in batches that an older release opened.

Their map outputs have no hash rows (`write_moves`). So coalesce reads all rows of the batch once, and writes for each
range which of its rows are cancelled elsewhere.
"""

import logging
from collections.abc import Iterator

import numpy as np

from icefloe.batch.batch_keys import identity_moves_key
from icefloe.batch.context.batch_folder import BatchFileMissingError, BatchFolder
from icefloe.batch.reduce.batch_extents import BatchExtents
from icefloe.batch.reduce.match_rows import matched_rows
from icefloe.batch.reduce.range_rows import RangeRows
from icefloe.batch.reduce.spilled_moves import SpilledMoves, WeightedHashes
from icefloe.changes.row_hash.row_hashes import row_hashes
from icefloe.shuffle.blocks import BlockRows, CorruptBlockError
from icefloe.shuffle.extents import RangeExtents
from icefloe.shuffle.reduce_ranges import CoalescePlan
from icefloe.storage.parallel import map_parallel
from icefloe.storage.store import KeyMissingError

logger = logging.getLogger(__name__)


def write_identity_moves(folder: BatchFolder, coalesce_plan: CoalescePlan, epoch: int) -> None:
    """Compares the rows of all map outputs across reduce partitions and writes the cancelled rows of each range.

    The map outputs are read once. The hashes of their rows go to local disk and are compared slice by slice.

    Args:
        folder: folder of the batch.
        coalesce_plan: its ranges.
        epoch: epoch of the extents to read.

    Raises:
        CorruptMapOutputError: names the map output to make again.
    """
    # Files of an earlier attempt count, whichever epoch it read: every attempt chooses the same rows. So a damaged file
    # may also be replaced while somebody reads it.
    missing = _missing(folder, coalesce_plan)
    if not missing:
        return
    extents = BatchExtents(folder, epoch)
    pieces = (part for each in coalesce_plan.ranges for part in _rows(folder, extents.of(each.range_id)))
    with matched_rows(
        pieces, rows=extents.rows, coalesce_plan=coalesce_plan, memory_bytes=folder.memory_bytes
    ) as found:
        at_once = folder.store.requests_at_once
        map_parallel(lambda range_id: _write(folder, range_id, found), missing, at_once=at_once)
    logger.info("batch %d: found the rows that changed their identity only", folder.plan.batch_number)


def load_identity_moves(folder: BatchFolder, range_id: int) -> WeightedHashes:
    """The rows of a range that are cancelled elsewhere.

    Raises:
        BatchFileMissingError: their file is gone or damaged.
    """
    key = identity_moves_key(range_id)
    what = f"{folder.store.url}/{key}, with the rows that range {range_id} has in common with other ranges,"
    try:
        return WeightedHashes.from_bytes(folder.store.get(key))
    except KeyMissingError as cause:
        raise BatchFileMissingError(f"{what} is missing: run coalesce again", url=folder.store.url, key=key) from cause
    except CorruptBlockError as cause:
        raise BatchFileMissingError(f"{what} is damaged: run coalesce again", url=folder.store.url, key=key) from cause


def _missing(folder: BatchFolder, coalesce_plan: CoalescePlan) -> list[int]:
    """The ranges whose file is missing or damaged."""

    def is_missing(range_id: int) -> bool:
        try:
            load_identity_moves(folder, range_id)
        except BatchFileMissingError:
            return True
        return False

    range_ids = [each.range_id for each in coalesce_plan.ranges]
    found = map_parallel(is_missing, range_ids, at_once=folder.store.requests_at_once)
    return [range_id for range_id, is_needed in zip(range_ids, found, strict=True) if is_needed]


def _write(folder: BatchFolder, range_id: int, found: SpilledMoves) -> None:
    folder.store.put(identity_moves_key(range_id), found.of(range_id).to_bytes())


def _rows(folder: BatchFolder, extents: RangeExtents) -> Iterator[WeightedHashes]:
    """The rows of a range, piece by piece."""
    shuffled = folder.shuffled_form
    fetched = RangeRows(
        folder.store, extents, shuffled=shuffled, memory_bytes=folder.memory_bytes, machine=folder.machine
    )
    for piece in fetched.pieces():
        rows, weights, ordinals = BlockRows.of(piece)
        if folder.plan.is_net:
            ordinals = np.zeros_like(ordinals)
        yield WeightedHashes(
            row_hashes=row_hashes(shuffled.without_identity(rows).columns),
            identity_hashes=shuffled.identities(rows),
            change_ordinals=ordinals,
            weights=weights,
        )
