"""The first part of phase two: one hash range, from hash rows to the rows that cancel across identities.

The delivered columns may not show the identity, as with row ids, or identifier columns that are not selected. A row
removed under one identity may then equal a row added under another identity, in another reduce range. Their hash rows
are in the same hash range, whose task says for each reduce range which of its rows are cancelled elsewhere.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from icefloe.audit.sums import Sums
from icefloe.batch.batch_keys import moves_key
from icefloe.batch.context.batch_folder import BatchFolder
from icefloe.batch.reduce.batch_extents import BatchExtents
from icefloe.batch.reduce.coalesce_map_outputs import load_coalesce_plan
from icefloe.batch.reduce.match_rows import matched_rows
from icefloe.batch.reduce.moves_file import has_whole_moves, write_moves_file
from icefloe.batch.reduce.spilled_moves import WeightedHashes
from icefloe.shuffle.extents import RangeExtents
from icefloe.shuffle.fetch import fetch_blocks
from icefloe.shuffle.hash_rows import HashRows
from icefloe.storage.local_folders import local_folders, on_local_disk, task_folder

__all__ = ["write_moves"]

logger = logging.getLogger(__name__)

_CANNOT_KEEP: Final = "the rows that cancel across identities cannot be written to local disk"
_PIECE_ROWS: Final = 1 << 18


def write_moves(folder: BatchFolder, range_id: int, *, epoch: int) -> None:
    """Writes the moves file of one hash range, or adopts an existing one.

    Args:
        folder: folder of the batch.
        range_id: id of the hash range.
        epoch: epoch of the extents to read.

    Raises:
        CorruptMapOutputError: names the map output to make again.
        AuditError: the hash rows do not add up to the rows that the map tasks handed on.
        TransientError: the store or local disk failed.
    """
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
    """The hash rows of a range, which are proven to be all of them after the last."""
    sums = Sums()
    for piece in _tables(folder, extents):
        rows = HashRows.of(piece)
        sums.add_rows(rows.row_hashes, rows.change_ordinals, rows.weights)
        moves = WeightedHashes(**rows._asdict())
        yield replace(moves, change_ordinals=np.zeros_like(rows.change_ordinals)) if folder.plan.is_net else moves
    what = f"hash range {extents.range_id} of batch {folder.plan.batch_number}"
    sums.require(Sums(extents.ordinals), what=what)


def _tables(folder: BatchFolder, extents: RangeExtents) -> Iterator[pa.RecordBatch]:
    """The hash rows in batches of about `_PIECE_ROWS`: each is cut into slices, and blocks may be small."""
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
