"""Ends without changes, shown to the readers of delivered files.

A batch that is staged ends in the folder where it is staged. Its readers count batches in another folder, and stop at
the first number without a manifest. So each such end gets a manifest there, by the record of the checkpoint. The
record comes first, and a manifest is created only if absent. So whoever delivers or ends a later batch completes
what a killed end left out, before the later batch becomes visible.
"""

import logging

from icefloe.batch.ends.empty_end import empty_summary
from icefloe.checkpoint.cursor import BatchOutcome
from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.records import CommitRecord
from icefloe.errors import IcefloeError
from icefloe.sinks.sink import Sink

__all__ = ["show_end", "show_ends", "try_to_show_ends"]

logger = logging.getLogger(__name__)


def show_ends(checkpoint: Checkpoint, folder: Sink | None, *, up_to: int, pipeline: str, table: str) -> None:
    """Gives batches that ended without changes their manifests; after that no late run can make them visible.

    Args:
        checkpoint: of the pipeline.
        folder: the folder in which readers count delivered batches; None: there is none.
        up_to: the last batch that counts, inclusive. Batches before the last delivered one are not looked at.
        pipeline: name of the pipeline.
        table: name of its table.

    Raises:
        PathClaimedError: the folder belongs to another checkpoint.
    """
    if folder is None:
        return
    for commit in _missing(checkpoint, folder, up_to):
        show_end(commit, folder, pipeline=pipeline, table=table)


def show_end(commit: CommitRecord, folder: Sink, *, pipeline: str, table: str) -> None:
    """Gives one batch that ended without changes its manifest; arguments and errors as in `show_ends`."""
    number = commit.batch_number
    folder.claim(owner=commit.checkpoint_id or "", pipeline=pipeline, table=table)
    folder.commit(empty_summary(pipeline, table, batch_number=number, snapshot_id=commit.up_to_snapshot_id), ())
    folder.discard(number)


def try_to_show_ends(checkpoint: Checkpoint, folder: Sink | None, *, up_to: int, pipeline: str, table: str) -> None:
    """`show_ends` for an end that is recorded already, and so is no error any more."""
    try:
        show_ends(checkpoint, folder, up_to=up_to, pipeline=pipeline, table=table)
    except IcefloeError as error:
        logger.warning("readers learn of the end of batch %d with the next batch that is delivered: %s", up_to, error)


def _missing(checkpoint: Checkpoint, folder: Sink, up_to: int) -> list[CommitRecord]:
    """The ends without a manifest, in the order in which they get one: before one that has it, none is missing."""
    found: list[CommitRecord] = []
    for number in range(up_to, -1, -1):
        commit = checkpoint.committed(number)
        if commit is None or commit.outcome is BatchOutcome.DELIVERED or folder.whole(number) is not None:
            break
        found.insert(0, commit)
    return found
