"""Cleanup: the files that a committed batch passed between its phases are deleted."""

import logging

from icefloe.batch.context import BatchContext
from icefloe.batch.layout import PLAN
from icefloe.errors import TerminalError

__all__ = ["clean_up"]

logger = logging.getLogger(__name__)


def clean_up(context: BatchContext) -> int:
    """Deletes the folder of a committed batch, its plan last, so that an interrupted cleanup can be repeated.

    Returns:
        How many objects were deleted.

    Raises:
        TerminalError: the batch is still open; what lies there is what its rerun resumes from.
    """
    number = context.plan.batch_number
    if context.checkpoint is not None and context.checkpoint.committed(number) is None:
        raise TerminalError(
            f"batch {number} of {context.plan.pipeline} is not committed: its files are kept for the rerun",
            batch_number=number,
        )
    keys = [stored.key for stored in context.store.list("")]
    context.store.delete(key for key in keys if key != PLAN)
    unfinished = context.store.remove_unfinished(is_over=True)
    context.store.delete([PLAN])
    logger.info("batch %d of %s: deleted %d objects", number, context.plan.pipeline, len(keys) + unfinished)
    return len(keys) + unfinished
