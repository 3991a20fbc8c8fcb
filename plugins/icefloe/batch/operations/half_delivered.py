"""An open batch that is proven, and of which its sink may hold a part: a run ends it, or a reset does."""

import logging
from dataclasses import replace

from icefloe.batch.batch_keys import begun_key
from icefloe.batch.commit.cleanup import clean_up_finished
from icefloe.batch.context.references import BatchReference
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.deliver.deliver_part import DeliveryRecords
from icefloe.batch.ends.empty_end import BatchStateError, EmptyEnd
from icefloe.batch.ends.shown_ends import try_to_show_ends
from icefloe.batch.report import BatchReport
from icefloe.checkpoint.ending import BatchOutcome, Ending
from icefloe.checkpoint.records import CommitRecord, OffsetRecord
from icefloe.checkpoint.view import CheckpointView
from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.recorded_configuration import ChangesPlace

logger = logging.getLogger(__name__)


def refuse_unseen(reference: BatchReference, opened: OffsetRecord, pipeline: Pipeline) -> None:
    """Stops whoever would give up a batch of which the folder of changes has nothing, unless that says something.

    The folder is that of the present pipeline file, and the batch may be whole in another one.

    Raises:
        TerminalError: it is known to be in another one.
        BatchStateError: a delivery of the batch has begun.
    """
    number, name, there = opened.batch_number, pipeline.name, _other_place(opened, pipeline)
    if there is not None:
        here = ChangesPlace.of(pipeline).path
        raise TerminalError(
            f"the changes of batch {number} of {name} are in {there.path}, but {there.keys} "
            + ("has another value of its variables here" if here == there.path else f"leads to {here} now")
            + f", where nothing shows whether they were delivered: restore {there.keys}, then run icefloe abandon "
            f"{name} again"
            + (f", or run icefloe reset {name}, which loads the table again" if reference.settings.delivery else ""),
            batch_number=number,
        )
    if _has_begun(reference):
        raise _half_delivered(number, name, str(opened.result_configuration.get("sink.type")))


def refuse_half_delivered(reference: BatchReference, *, pipeline: str) -> None:
    """Stops whoever would give up a proven batch, unless its delivery is complete.

    The changes of such a batch that the sink holds are taken back by nothing but a load: net changes of a later batch
    may leave out a row that came and went.

    Raises:
        BatchStateError: the sink may hold a part of the batch.
    """
    if _is_half_delivered(reference):
        raise _half_delivered(reference.batch_number, pipeline, reference.settings.delivery["type"])


def _half_delivered(number: int, pipeline: str, sink: str) -> BatchStateError:
    return BatchStateError(
        f"batch {number} of {pipeline} is proven and {sink} may hold a part of it, so it cannot be abandoned: "
        f"icefloe run {pipeline} delivers the rest; if {sink} refuses that for good, icefloe reset {pipeline} "
        "gives the batch up and loads the table again",
        batch_number=number,
    )


def half_delivered_end(session: PipelineSession, view: CheckpointView) -> EmptyEnd | None:
    """The end that a reset gives to the open batch; None if no batch is open, or if it can be abandoned alone."""
    opened, pipeline = view.opened, session.pipeline
    if opened is None or opened.ending.is_move:
        return None
    end = EmptyEnd.of_open(opened, pipeline)
    reference, whole = session.reference(opened), session.folder_of_changes.whole(opened.batch_number)
    if whole in (None, end.summary):
        # In another folder it may be whole, and then the sink may have a part: a load replaces that in any case.
        is_moved = pipeline.delivers and _other_place(opened, pipeline) is not None
        if not is_moved and not _has_begun(reference):
            return None
    elif not _is_half_delivered(reference):
        return None
    # At the beginning, so that whatever comes next is a load, also if the reset is killed right after this.
    return replace(end, ending=Ending.abandoned_half_delivered(opened.follows))


def give_up_delivery(session: PipelineSession, end: EmptyEnd) -> None:
    """Ends a batch that `half_delivered_end` found; its late tasks find themselves fenced.

    Raises:
        TransientError: a run was faster and has delivered it.
        OtherOwnerError: the checkpoint belongs to another owner.
    """
    checkpoint, number = session.checkpoint, end.offset.batch_number
    checkpoint.refuse_other(session.writer)
    # The record decides: a run that delivers the batch at this moment creates the same one. So the report comes after
    # it, and the report of a run that lost does not count.
    commit = checkpoint.create_commit(end.commit(session.writer))
    if commit.outcome is not BatchOutcome.ABANDONED:
        raise TransientError(
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

    It counts as such if the staged files are gone.
    """
    if commit.outcome is not BatchOutcome.ABANDONED:
        return False
    whole = session.folder_of_changes.whole(commit.batch_number)
    return whole is None or whole.rows > 0


def _other_place(opened: OffsetRecord, pipeline: Pipeline) -> ChangesPlace | None:
    """The folder that has the changes of an open batch; None if it is not known to be another one than today's."""
    recorded, today = ChangesPlace.recorded(opened.result_configuration), ChangesPlace.of(pipeline)
    return None if recorded is None or recorded.may_be(today) else recorded


def _has_begun(reference: BatchReference) -> bool:
    """True if a delivery of the batch has begun, wherever its changes are staged."""
    return reference.folder.size(begun_key()) is not None


def _is_half_delivered(reference: BatchReference) -> bool:
    """True if a proven batch is for a sink that has not taken the whole of it."""
    return bool(reference.settings.delivery) and DeliveryRecords(reference.folder).batch() is None
