"""Phase two of the shuffle: one reduce range, from shuffle blocks to changes."""

import logging
import os
import time
from collections.abc import Iterator

import pyarrow as pa

from icefloe.batch.context.batch_folder import BatchFolder
from icefloe.batch.reduce.batch_extents import BatchExtents
from icefloe.batch.reduce.cancelled_rows import CancelledRows
from icefloe.batch.reduce.group_changes import GroupChanges
from icefloe.batch.reduce.moves import load_moves
from icefloe.batch.reduce.range_rows import RangeRows
from icefloe.batch.staged_changes import RangeResult, StagedChanges
from icefloe.batch.sums import Sums
from icefloe.sinks.change_files import ChangeFiles
from icefloe.storage.local_folders import local_folders
from icefloe.storage.requests import Requests, RequestTotals

__all__ = ["range_changes", "read_range"]

logger = logging.getLogger(__name__)


def read_range(folder: BatchFolder, sink: ChangeFiles, range_id: int, *, requests: Requests, epoch: int) -> RangeResult:
    """Delivers the changes of one reduce range, or adopts an existing result.

    Raises:
        CorruptMapOutputError: names the map output to make again.
    """
    result = RangeResult.load(folder.store, range_id)
    if result is not None:
        return result
    started = time.monotonic()
    batch_extents = BatchExtents(folder, epoch)
    extents = batch_extents.of(range_id)
    staged = StagedChanges(folder)
    message = staged.write(sink, range_id, range_changes(folder, batch_extents, range_id, staged))
    logger.info("range %d: wrote %d changes", range_id, message.rows)
    result = RangeResult(
        range_id=range_id,
        message=message,
        sums=staged.sums.to_documents(),
        fetched_bytes=extents.size_bytes,
        fetched_blocks=len(extents.blocks),
        seconds=time.monotonic() - started,
    )
    recorded = result.create(folder.store)
    if recorded != result:
        logger.info("range %d: another attempt was first", range_id)
        requests.add(RequestTotals(races_lost=1))
    return recorded


def range_changes(
    folder: BatchFolder, batch_extents: BatchExtents, range_id: int, staged: StagedChanges
) -> Iterator[pa.RecordBatch]:
    """The changes of one reduce range in delivery order: by identity, ordinal, and before image first.

    Raises:
        CorruptMapOutputError: names the map output to make again.
    """
    shuffled, extents = folder.shuffled_form, batch_extents.of(range_id)
    expected = Sums(extents.ordinals)
    rows = RangeRows(folder.store, extents, shuffled=shuffled, memory_bytes=folder.memory_bytes, machine=folder.machine)
    disk = local_folders(os.environ)[0]
    with CancelledRows(folder.plan.num_partitions, memory_bytes=folder.memory_bytes, disk=disk) as cancelled:
        for some in load_moves(folder, batch_extents, range_id):
            expected.add_rows(some.row_hashes, some.change_ordinals, some.weights)
            cancelled.add(some)
        changes = GroupChanges(folder, staged, cancelled if folder.shape.is_identity_carried else None)
        for group in rows.groups():
            yield from changes.of(group)
    # Several ranges of one partition may fetch the same block, and only its rows tell whose they are: these rows are
    # added to what is expected as they are read. The proof of the batch compares the sums of all ranges with those of
    # the map outputs.
    expected.add(rows.shared_sums)
    staged.sums.require(
        expected,
        what=f"range {range_id} of batch {folder.plan.batch_number}",
        per_ordinal=not folder.plan.is_net,
    )
