"""Ends without changes, shown to the readers of delivered files.

A batch that is staged ends in the folder where it is staged. Its readers count batches in another folder, and stop at
the first number without a manifest. So each such end gets a manifest there, by the record of the checkpoint. The
record comes first, and a manifest is created only if absent. So whoever delivers or ends a later batch completes
what a killed end left out, before the later batch becomes visible.

A reset may lead back to a folder that has earlier batches of the pipeline, while others were delivered elsewhere. Their
numbers get such manifests too, before the reset does: with it readers drop their rows anyway.
"""

import logging

from icefloe.batch.ends.empty_end import empty_summary
from icefloe.checkpoint.ending import BatchOutcome
from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.records import CommitRecord
from icefloe.errors import IcefloeError
from icefloe.sinks.change_files import ChangeFiles

__all__ = ["missing_numbers", "show_end", "show_ends", "try_to_show_ends"]

logger = logging.getLogger(__name__)


def show_ends(checkpoint: Checkpoint, folder: ChangeFiles | None, *, up_to: int, pipeline: str, table: str) -> None:
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


def show_end(commit: CommitRecord, folder: ChangeFiles, *, pipeline: str, table: str) -> None:
    """Gives one batch that ended without changes its manifest; arguments and errors as in `show_ends`."""
    number = commit.batch_number
    folder.claim(owner=commit.checkpoint_id, pipeline=pipeline, table=table)
    folder.commit(empty_summary(pipeline, table, batch_number=number, snapshot_id=commit.up_to_snapshot_id), ())
    folder.discard(number)


def try_to_show_ends(
    checkpoint: Checkpoint, folder: ChangeFiles | None, *, up_to: int, pipeline: str, table: str
) -> None:
    """`show_ends` for an end that is recorded already, and so is no error any more."""
    try:
        show_ends(checkpoint, folder, up_to=up_to, pipeline=pipeline, table=table)
    except IcefloeError as error:
        logger.warning("readers learn of the end of batch %d with the next batch that is delivered: %s", up_to, error)


def show_gaps(folder: ChangeFiles | None, *, before: int, pipeline: str, table: str) -> None:
    """Gives empty manifests to numbers that a folder lacks among earlier ones; repeating it completes it.

    Args:
        folder: the folder in which readers count batches; it is claimed. None: there is none.
        before: number of the reset at which readers drop what they hold.
        pipeline: name of the pipeline.
        table: name of its table.
    """
    if folder is None:
        return
    for number in missing_numbers(folder, before=before):
        # The batch before is whole by now. The chain of ranges stays unbroken until the reset.
        earlier = folder.whole(number - 1)
        snapshot_id = None if earlier is None else earlier.up_to_snapshot_id
        folder.commit(empty_summary(pipeline, table, batch_number=number, snapshot_id=snapshot_id), ())


def missing_numbers(folder: ChangeFiles | None, *, before: int | None = None) -> list[int]:
    """Numbers without a manifest behind one that has it, ascending.

    Args:
        folder: the folder in which readers count batches; None: there is none.
        before: the first number that is not looked at; None: the last one that has a manifest.
    """
    found = [] if folder is None else folder.whole_batches()
    if not found:
        return []
    # Those before the first may be deleted, as everybody has read them.
    return sorted(set(range(found[0], found[-1] if before is None else before)) - set(found))


def _missing(checkpoint: Checkpoint, folder: ChangeFiles, up_to: int) -> list[CommitRecord]:
    """The ends without a manifest, in the order in which they get one: before one that has it, none is missing."""
    found: list[CommitRecord] = []
    for number in range(up_to, -1, -1):
        commit = checkpoint.committed(number)
        if commit is None or commit.outcome is BatchOutcome.DELIVERED or folder.whole(number) is not None:
            break
        found.insert(0, commit)
    return found
