"""An open batch that is proven, and of which its sink may hold a part: a run ends it, or a reset does."""

import logging
from dataclasses import replace

from icefloe.batch.commit.cleanup import clean_up_finished
from icefloe.batch.context.references import BatchReference
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.deliver.delivery_records import DeliveryRecords
from icefloe.batch.ends.empty_end import EmptyEnd
from icefloe.batch.ends.shown_ends import try_to_show_ends
from icefloe.batch.report import BatchReport
from icefloe.checkpoint.cursor import BatchOutcome, Cursor
from icefloe.checkpoint.records import CommitRecord
from icefloe.checkpoint.view import CheckpointView
from icefloe.errors import IcefloeError, TerminalError, TransientError

logger = logging.getLogger(__name__)


class HalfDeliveredError(TerminalError):
    """A sink may hold a part of an open batch, so the batch cannot be given up alone."""

    batch_number: int


class DeliveredMeanwhileError(TransientError):
    """A run has ended the batch that a reset was to give up."""

    batch_number: int


def refuse_half_delivered(reference: BatchReference, *, pipeline: str) -> None:
    """Stops whoever would give up a proven batch, unless its delivery is complete.

    The changes of such a batch that the sink holds are taken back by nothing but a load: net changes of a later batch
    may leave out a row that came and went.

    Raises:
        HalfDeliveredError: the sink may hold a part of the batch.
    """
    if _is_half_delivered(reference):
        number, sink = reference.batch_number, reference.settings.delivery["type"]
        raise HalfDeliveredError(
            f"batch {number} of {pipeline} is proven and {sink} may hold a part of it, so it cannot be abandoned: "
            f"icefloe run {pipeline} delivers the rest; if {sink} refuses that for good, icefloe reset {pipeline} "
            "gives the batch up and loads the table again",
            batch_number=number,
        )


def half_delivered_end(session: PipelineSession, view: CheckpointView) -> EmptyEnd | None:
    """The end that a reset gives to the open batch; None if no batch is open, or if it can be abandoned alone."""
    opened, pipeline = view.opened, session.pipeline
    if opened is None or opened.move is not None:
        return None
    end = EmptyEnd.of_abandoned(opened, view.cursor, pipeline=pipeline.name, table=pipeline.table)
    whole = session.sink.whole(opened.batch_number)
    if whole in (None, end.summary) or not _is_half_delivered(session.reference(opened)):
        return None
    # At the beginning, so that whatever comes next is a load, also if the reset is killed right after this.
    since = None if view.cursor is None else view.cursor.pipeline_since
    return replace(end, cursor=Cursor.beginning(opened.batch_number, pipeline_since=since))


def give_up_delivery(session: PipelineSession, end: EmptyEnd) -> None:
    """Ends a batch that `half_delivered_end` found; its late tasks find themselves fenced.

    Raises:
        DeliveredMeanwhileError: a run was faster and has delivered it.
        OtherOwnerError: the checkpoint belongs to another owner.
    """
    checkpoint, number = session.checkpoint, end.offset.batch_number
    checkpoint.refuse_other(session.writer)
    # The record decides: a run that delivers the batch at this moment creates the same one. So the report comes after
    # it, and the report of a run that lost does not count.
    commit = checkpoint.create_empty_commit(end.commit(session.writer))
    if commit.outcome is not BatchOutcome.ABANDONED:
        raise DeliveredMeanwhileError(
            f"a run of {end.pipeline} has delivered batch {number} meanwhile, so nothing was reset: look again, and "
            "pause the pipeline before you reset it",
            batch_number=number,
        )
    BatchReport.of_given_up(checkpoint, commit).keep(checkpoint)
    # What a run published of the batch right before this stays visible: readers drop it at the load that comes.
    try_to_show_ends(checkpoint, session.delivered_folder, up_to=number, pipeline=end.pipeline, table=end.table)
    try:
        clean_up_finished(session.reference(end.offset))
    except IcefloeError as error:
        logger.warning("the batch has ended, but its shuffle files remain: %s", error)


def is_given_up(session: PipelineSession, commit: CommitRecord) -> bool:
    """True if a committed batch was given up half delivered: it ended without changes, and what was staged has some.

    It counts as such if the staged files are gone: earlier releases deleted them too soon.
    """
    if commit.outcome is not BatchOutcome.ABANDONED:
        return False
    whole = session.sink.whole(commit.batch_number)
    return whole is None or whole.rows > 0


def _is_half_delivered(reference: BatchReference) -> bool:
    """True if a proven batch is for a sink that has not taken the whole of it."""
    return bool(reference.settings.delivery) and DeliveryRecords(reference.folder).batch() is None
