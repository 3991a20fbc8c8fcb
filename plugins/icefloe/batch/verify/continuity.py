"""Continuity of committed batches: each begins at the end of the one before, and no load comes twice."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from icefloe.checkpoint.cursor import BatchOutcome, Cursor
from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.records import CommitRecord

_MOVES: Final = (BatchOutcome.CURSOR_SET, BatchOutcome.RESET)


def breaks_between(checkpoint: Checkpoint, batches: Sequence[CommitRecord]) -> Iterator[str]:
    """One sentence for each batch that does not follow the one before it.

    A replay begins at the last load, so it cannot see a load that was delivered twice. So this looks at all batches,
    also at those before the last load.

    Args:
        checkpoint: checkpoint of the batches.
        batches: all that are committed, by number.
    """
    for before, batch in pairwise(batches):
        ended = before.end
        if batch.outcome in _MOVES:
            continue  # somebody moved the cursor on purpose
        if not _follows(ended, batch) and not _is_reload(checkpoint, batch.batch_number):
            yield (
                f"batch {batch.batch_number} in {checkpoint.url} {_beginning(batch)}, but batch {before.batch_number} "
                f"ended at {_end(ended)}: rows were delivered twice or not at all; deliver the table into a new "
                "sink.path under another name"
            )


def _follows(ended: Cursor, batch: CommitRecord) -> bool:
    if batch.outcome is BatchOutcome.ABANDONED:
        return batch.end.is_at(ended) or batch.end.is_beginning
    if ended.load_part is not None:
        part = batch.load_part
        is_next = part is not None and part.first_file == ended.load_part.stop_file
        return is_next and batch.after_snapshot_id == batch.up_to_snapshot_id == ended.snapshot_id
    # Before the first snapshot of a table there is nothing to deliver twice.
    return batch.after_snapshot_id == ended.snapshot_id and (batch.load_part is None or ended.snapshot_id is None)


def _is_reload(checkpoint: Checkpoint, number: int) -> bool:
    """True if the batch loads the table again on purpose."""
    offset = checkpoint.offset(number)
    return offset is not None and offset.spec.is_reload


def _beginning(batch: CommitRecord) -> str:
    if batch.load_part is not None:
        return f"loads {batch.load_part} of snapshot {batch.up_to_snapshot_id}"
    if batch.after_snapshot_id is None:
        return "loads the table again, without a reload that the pipeline asked for"
    return f"begins after snapshot {batch.after_snapshot_id}"


def _end(ended: Cursor) -> str:
    part = "" if ended.load_part is None else f", {ended.load_part} of its load"
    return f"snapshot {ended.snapshot_id}{part}"
