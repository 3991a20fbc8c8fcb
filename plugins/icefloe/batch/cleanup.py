"""Cleanup: the files that a committed batch passed between its phases are deleted."""

import logging

from icefloe.batch.context import BatchContext, TaskReference
from icefloe.batch.layout import PLAN
from icefloe.errors import TerminalError
from icefloe.storage.store import Store

__all__ = ["clean_up", "clean_up_finished"]

logger = logging.getLogger(__name__)


def clean_up(context: BatchContext) -> int:
    """Deletes the folder of a committed batch, its plan last, so that an interrupted cleanup can be repeated.

    Returns:
        How many objects were deleted.

    Raises:
        TerminalError: the batch is still open; what lies there is what its rerun resumes from.
    """
    if context.checkpoint is not None and not context.is_over:
        raise _still_open(context.plan.batch_number, context.store.url)
    return _delete_all(context.store, context.plan.batch_number)


def clean_up_finished(reference: TaskReference) -> int:
    """The same without reading the plan, which a late run may have taken back: the folder is known without it."""
    if not reference.is_over():
        raise _still_open(reference.batch_number, reference.folder.url)
    return _delete_all(reference.folder, reference.batch_number)


def _delete_all(store: Store, batch_number: int) -> int:
    keys = [stored.key for stored in store.list("")]
    store.delete(key for key in keys if key != PLAN)
    unfinished = store.remove_unfinished(is_over=True)
    store.delete([PLAN])
    logger.info("batch %d: deleted %d objects from %s", batch_number, len(keys) + unfinished, store.url)
    return len(keys) + unfinished


def _still_open(batch_number: int, url: str) -> TerminalError:
    return TerminalError(
        f"batch {batch_number} is not committed: its files are kept for the rerun ({url})", batch_number=batch_number
    )
