"""Ends a batch without changes, or completes such an end.

The order of the writes decides every race, and lets any run complete what a killed one began:

1. the sink: an empty batch is made whole. No commit of a run can replace it, so nothing becomes visible any more.
2. the report
3. the checkpoint: the batch is done, and the cursor stays or moves.
4. the folder of delivered files, if the batch was staged: its readers see the end too.

A run that delivers the batch makes it whole in step 1 too. Whoever is first there decides.
"""

import logging

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.ends.empty_end import EmptyEnd
from icefloe.batch.ends.shown_ends import show_gaps, try_to_show_ends
from icefloe.checkpoint.ending import BatchOutcome
from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.records import CommitRecord, Writer
from icefloe.checkpoint.view import CheckpointView
from icefloe.errors import IcefloeError, TransientError
from icefloe.sinks.change_files import ChangeFiles

__all__ = ["complete_unfinished_end", "end_here", "end_without_changes"]

logger = logging.getLogger(__name__)


def complete_unfinished_end(session: PipelineSession, view: CheckpointView) -> CommitRecord | None:
    """Completes the end without changes that somebody began for the open batch; None if nobody did.

    Args:
        session: of the pipeline or of the backfill.
        view: a look at its checkpoint.

    Raises:
        TransientError, OtherOwnerError: as `end_without_changes`.
    """
    opened = view.opened
    if opened is None:
        return None
    end = EmptyEnd.of_open(opened, session.pipeline)
    is_ending = opened.ending.is_move or (
        end.is_begun and session.folder_of_changes.whole(opened.batch_number) == end.summary
    )
    return end_here(session, end) if is_ending else None


def end_here(session: PipelineSession, end: EmptyEnd) -> CommitRecord:
    """`end_without_changes` in the places of a session, after the gaps that a reset finds there."""
    if end.ending.outcome is BatchOutcome.RESET:
        number = end.ending.batch_number
        show_gaps(session.counted_folder, before=number, pipeline=end.pipeline, table=end.table)
    return end_without_changes(
        end,
        checkpoint=session.checkpoint,
        sink=session.folder_of_changes,
        delivered=session.delivered_folder,
        writer=session.writer,
    )


def end_without_changes(
    end: EmptyEnd, *, checkpoint: Checkpoint, sink: ChangeFiles, delivered: ChangeFiles | None, writer: Writer
) -> CommitRecord:
    """Ends a batch without changes; repeating it completes what was begun.

    Args:
        end: the end.
        checkpoint: of the pipeline or of the backfill.
        sink: the folder to which tasks write changes.
        delivered: the folder in which readers count delivered batches; None: ``sink``, or none at all.
        writer: who ends the batch.

    Returns:
        The commit record that counts: this one, or the record of a run that was faster.

    Raises:
        TransientError: the batch was to be abandoned, and is delivered at the sink.
        PathInUseError: the sink holds another batch of this number.
        OtherOwnerError: the checkpoint belongs to another owner.
        PathClaimedError: the folder belongs to another checkpoint.
    """
    number = end.ending.batch_number
    checkpoint.refuse_other(writer)
    _make_whole(end, sink)
    commit = end.commit(writer)
    end.report(commit).keep(checkpoint)
    found = checkpoint.create_commit(commit)
    logger.info("batch %d of %s: %s", number, end.pipeline, found.outcome)
    try:
        sink.discard(number)
    except IcefloeError as error:
        logger.warning("files of batch %d that no reader sees remain at the sink: %s", number, error)
    try_to_show_ends(checkpoint, delivered, up_to=number, pipeline=end.pipeline, table=end.table)
    return found


def _make_whole(end: EmptyEnd, sink: ChangeFiles) -> None:
    number, summary = end.ending.batch_number, end.summary
    sink.claim(owner=end.offset.checkpoint_id, pipeline=end.pipeline, table=end.table)
    try:
        sink.commit(summary, ())
    except IcefloeError:
        if end.offset.ending.is_move or sink.whole(number) in (None, summary):
            raise
        raise TransientError(
            f"batch {number} of {end.pipeline} was delivered by a run meanwhile, so readers see its changes: nothing "
            f"was abandoned; repeat icefloe abandon {end.pipeline}, or run it, and the batch is recorded as done",
            batch_number=number,
        ) from None
