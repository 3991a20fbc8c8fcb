"""Cleanup: the files that a committed batch passed between its phases are deleted."""

import logging

from icefloe.batch.context.batch_context import TaskReference
from icefloe.batch.keys import PLAN
from icefloe.errors import TerminalError

__all__ = ["clean_up_finished"]

logger = logging.getLogger(__name__)


def clean_up_finished(reference: TaskReference) -> int:
    """Deletes the folder of a committed batch, and those that runs before it left when they were killed.

    The folders of a checkpoint's batches stand side by side, so one listing shows them all; every batch before a
    committed one is committed. Plans are deleted last, so that an interrupted cleanup can be repeated. No plan is
    read, for a late run may have taken it back.

    Returns:
        How many objects were deleted.

    Raises:
        TerminalError: the batch is still open; what lies there is what its rerun resumes from.
    """
    number, batches = reference.batch_number, reference.batches
    commit = reference.checkpoint.committed(number)
    if commit is None:
        raise TerminalError(
            f"batch {number} is not committed: its files are kept for the rerun ({batches.url}/{number})",
            batch_number=number,
        )
    # In format 1 the folders were called after the pipeline, and others of its name have theirs beside them.
    is_own = commit.checkpoint_id is not None and batches.url.endswith(f"/{commit.checkpoint_id}")
    listed = [stored.key for stored in batches.list("" if is_own else str(number))]
    keys = [key for key in listed if _is_up_to(number, key)]
    over = sorted({str(number), *(key.partition("/")[0] for key in keys)})
    plans = [f"{batch}/{PLAN}" for batch in over]
    batches.delete(key for key in keys if key not in plans)
    unfinished = sum(batches.remove_unfinished(batch, is_over=True) for batch in over)
    batches.delete(plans)
    logger.info("batches %s: deleted %d objects from %s", ", ".join(over), len(keys) + unfinished, batches.url)
    return len(keys) + unfinished


def _is_up_to(number: int, key: str) -> bool:
    batch = key.partition("/")[0]
    return batch.isdecimal() and int(batch) <= number
