"""The rule of all commands that change a pipeline: an error counts only if nobody moved the pipeline on meanwhile."""

from collections.abc import Iterator
from contextlib import contextmanager

from icefloe.checkpoint.log import Checkpoint
from icefloe.errors import IcefloeError, TerminalError, TransientError, UsageError
from icefloe.sinks.change_files import GivenUpBatchError

__all__ = ["errors_count_if_unchanged"]


@contextmanager
def errors_count_if_unchanged(checkpoint: Checkpoint, *, pipeline: str) -> Iterator[None]:
    """A block that looks at a pipeline and changes it; others may end batches and open new ones meanwhile.

    What it looked at is outdated then, and so is an error that says that retrying cannot help.

    Args:
        checkpoint: of the pipeline or of the backfill.
        pipeline: name of the pipeline.

    Raises:
        TransientError: the block failed for good, and a batch was opened or ended since it began.
        TransientError: the checkpoint did not answer.
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
    """See `CheckpointView`; None if a record is damaged, which the block itself reports if it needs the record."""
    try:
        view = checkpoint.look()
    except TerminalError:
        return None
    if view.opened is not None and view.opened.ending.is_move:
        # A killed move, which the block may complete itself: nobody else has changed anything then.
        return view.next_number + 1, False
    return view.position
