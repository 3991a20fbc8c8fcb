"""A run ends without an error if another run has done its work."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from icefloe.batch.context.references import BatchReference
from icefloe.batch.context.running_batch import BatchCommittedError
from icefloe.batch.report import BatchReport
from icefloe.checkpoint.ending import BatchOutcome
from icefloe.checkpoint.log import Checkpoint
from icefloe.errors import IcefloeError, TerminalError, TransientError, UsageError
from icefloe.sinks.manifest import GivenUpBatchError

__all__ = ["BatchFinished", "ends_well_if_finished", "errors_count_if_unchanged"]

logger = logging.getLogger(__name__)


@contextmanager
def errors_count_if_unchanged(checkpoint: Checkpoint, *, pipeline: str) -> Iterator[None]:
    """A block that looks at a pipeline and changes it; other runs may end batches and open new ones meanwhile.

    Then what it looked at is outdated, and an error that retrying cannot help becomes a `TransientError`.
    """
    before = _position(checkpoint)
    try:
        yield
    except UsageError:
        raise
    except (TerminalError, GivenUpBatchError) as error:
        try:
            now = _position(checkpoint)
        except IcefloeError:
            raise error from None
        if before == now:
            raise
        raise TransientError(
            f"{pipeline} has changed since this command looked at it: repeat the command; it met: {error.sentence}",
            pipeline=pipeline,
        ) from error


def _position(checkpoint: Checkpoint) -> tuple[int, bool] | None:
    """None if a record is damaged, which the block itself reports if it needs the record."""
    try:
        view = checkpoint.look()
    except TerminalError:
        return None
    if view.opened is not None and view.opened.ending.is_move:
        # A killed move, which the block may complete itself: nobody else has changed anything then.
        return view.next_number + 1, False
    return view.position


class BatchFinished(Exception):  # noqa: N818 - no error: nothing is left to do
    """Another run has committed the batch meanwhile. Not an `IcefloeError`, so that nobody reports it as trouble."""

    def __init__(self, reference: BatchReference) -> None:
        super().__init__(reference.batch_number)
        self._reference = reference

    @property
    def report(self) -> BatchReport:
        """Report of the run that committed the batch."""
        return BatchReport.load(self._reference.checkpoint, self._reference.batch_number)

    @property
    def was_abandoned(self) -> bool:
        """True if somebody gave the batch up."""
        commit = self._reference.checkpoint.committed(self._reference.batch_number)
        return commit is not None and commit.outcome is BatchOutcome.ABANDONED


@contextmanager
def ends_well_if_finished(reference: BatchReference) -> Iterator[None]:
    """Turns any error inside into `BatchFinished` if the batch is committed by then.

    A late run may find its plan deleted, its parts in place or its batch closed. These are traces of the faster run.

    Raises:
        BatchFinished: there is nothing left to do of the batch. Any other error is the original one, or a
            `TransientError` if the checkpoint does not answer.
    """
    try:
        yield
    except Exception as error:
        if not isinstance(error, BatchCommittedError) and not _is_over(reference, error):
            raise
        logger.info("batch %d was finished by another run, this one ends: %s", reference.batch_number, error)
        raise BatchFinished(reference) from None


def _is_over(reference: BatchReference, error: Exception) -> bool:
    try:
        return reference.is_over()
    except TransientError as unanswered:
        # "There is no plan" ends a run for good, and may only mean that a faster run has cleaned up. The next try asks
        # again.
        if isinstance(error, TerminalError):
            raise unanswered from error
        logger.warning("could not find out if batch %d is finished: %s", reference.batch_number, unanswered)
    except IcefloeError as damage:
        logger.warning("could not find out if batch %d is finished: %s", reference.batch_number, damage)
    return False
