"""Ending an open batch by hand: given up if no reader has seen anything of it, otherwise recorded as done."""

from dataclasses import dataclass, replace
from typing import Final

from icefloe.batch.context.end_batch import BatchEnd, try_to_show_ends
from icefloe.batch.context.session import PipelinePlaces
from icefloe.batch.deliver.commit_batch import try_to_clean_up
from icefloe.batch.open.recorded_pipeline import refuse_other_coordination
from icefloe.batch.report import BatchReport
from icefloe.batch.status import publish_end
from icefloe.checkpoint.log import CheckpointView
from icefloe.checkpoint.protocol import BatchState
from icefloe.checkpoint.records import BatchOutcome, CommitRecord, Ending, OffsetRecord
from icefloe.errors import TerminalError, TransientError
from icefloe.pipeline.model import ChangesPlace
from icefloe.sinks.manifest import BatchSummary

__all__ = ["end_open_batch", "find_end"]

_MOST_NAMED: Final = 10


class BatchStateError(TerminalError):
    """A command cannot act in the state of the pipeline's open batch, or of its load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenBatch:
    """The open batch, and what its documents say."""

    end: BatchEnd
    whole: BatchSummary | None  # as its manifest has it; None: no manifest
    state: BatchState
    other: ChangesPlace | None  # place of its changes; None: not known to be another one than today's

    @classmethod
    def of(cls, places: PipelinePlaces, opened: OffsetRecord) -> "_OpenBatch":
        end, reference = BatchEnd.of_open(places, opened), places.reference(opened)
        whole = places.folder_of_changes.whole(opened.batch_number)
        state = BatchState.of_open(
            is_passed_on=places.settings.delivers,
            is_whole=whole is not None,
            is_closed=whole == end.summary,
            has_begun=reference.has_begun_delivery,
            has_arrived=reference.delivery is not None,
        )
        recorded = ChangesPlace.recorded(opened.result_configuration)
        is_elsewhere = recorded is not None and not recorded.may_be(ChangesPlace.of(places.pipeline))
        return cls(end=end, whole=whole, state=state, other=recorded if is_elsewhere else None)

    @property
    def may_be_delivered_elsewhere(self) -> bool:
        """True if nothing here shows whether the changes in another folder were delivered."""
        return self.other is not None and self.whole in (None, self.end.summary)


def find_end(places: PipelinePlaces) -> BatchEnd | None:
    """The end that the open batch can have; None if no batch is open. Changes nothing.

    Raises:
        BatchStateError: the open batch only moves the cursor, or the sink may hold a part of it.
        TerminalError: its changes or the checkpoint are elsewhere than the pipeline file says.
    """
    view, pipeline = places.checkpoint.look(), places.pipeline
    if view.checkpoint_id is None:
        refuse_other_coordination(places)
    opened = view.opened
    if opened is None:
        if places.backfill_id is not None and view.cursor is None:
            _require_backfill(places, places.backfill_id)
        return None
    number, name = opened.batch_number, pipeline.name
    if opened.ending.is_move:
        raise BatchStateError(
            f"batch {number} of {name} only moves the cursor ({opened.ending.outcome}), so there is nothing to "
            f"abandon; icefloe run {name} completes it",
            batch_number=number,
        )
    places.folder_of_changes.claim(places.origin(opened.checkpoint_id), only_looks=True)
    found = _OpenBatch.of(places, opened)
    if found.whole is not None and found.state.can_be_recorded:
        # A run records it too, unless the table was replaced, keys were edited, or its files and its range are gone.
        return replace(found.end, ending=opened.ending, delivered=found.whole)
    if found.other is not None and found.may_be_delivered_elsewhere:
        here, there = ChangesPlace.of(pipeline).path, found.other
        raise TerminalError(
            f"the changes of batch {number} of {name} are in {there.path}, but {there.keys} "
            + ("has another value of its variables here" if here == there.path else f"leads to {here} now")
            + f", where nothing shows whether they were delivered: restore {there.keys}, then run icefloe abandon "
            f"{name} again"
            + (f", or run icefloe reset {name}, which loads the table again" if pipeline.delivers else ""),
            batch_number=number,
        )
    if found.state.can_be_given_up:
        # Only a load takes back what the sink holds: net changes may leave out a row that came and went.
        sink = opened.result_configuration.get("sink.type")
        raise BatchStateError(
            f"batch {number} of {name} is proven and {sink} may hold a part of it, so it cannot be abandoned: icefloe "
            f"run {name} delivers the rest; if {sink} refuses that for good, icefloe reset {name} gives the batch up "
            "and loads the table again",
            batch_number=number,
        )
    return found.end


def _require_backfill(places: PipelinePlaces, backfill_id: str) -> None:
    store = places.open_storage(places.pipeline.checkpoint_url)
    known = sorted({each.key.split("/")[1] for each in store.list("backfills")})
    if backfill_id not in known:
        found = f"it has {', '.join(known[-_MOST_NAMED:])}" if known else "it has none"
        raise TerminalError(f"pipeline {places.pipeline.name} has no backfill {backfill_id}: {found}; correct the ID")


def end_open_batch(end: BatchEnd) -> BatchOutcome:
    """Ends the batch that `find_end` found; repeating it completes what was begun.

    Returns:
        The outcome that counts. It says whether this call or a run that delivered the batch was faster.

    Raises:
        TransientError: the batch was to be given up, and a run has made it whole at the sink meanwhile.
    """
    commit = end.record()
    # The cleanup of the next batch takes what remains.
    try_to_clean_up(end.places.reference(end.offset))
    publish_end(end.places.checkpoint, end.places.pipeline, commit, writer=end.places.writer)
    return commit.outcome


def half_delivered_end(places: PipelinePlaces, view: CheckpointView) -> BatchEnd | None:
    """The end that a reset gives to the open batch; None if no batch is open, or if it can be abandoned alone."""
    opened = view.opened
    if opened is None or opened.ending.is_move:
        return None
    found = _OpenBatch.of(places, opened)
    # In another folder it may be whole, and then the sink may have a part: a load replaces that in any case.
    is_elsewhere = places.pipeline.delivers and found.may_be_delivered_elsewhere
    if not is_elsewhere and not found.state.can_be_given_up:
        return None
    # At the beginning, so that whatever comes next is a load, also if the reset is killed right after this.
    return replace(found.end, ending=Ending.abandoned_half_delivered(opened.follows))


def give_up_delivery(end: BatchEnd) -> None:
    """Fences a batch's late tasks; `TransientError` if a run has delivered it."""
    places, number = end.places, end.offset.batch_number
    checkpoint, name = places.checkpoint, places.pipeline.name
    checkpoint.refuse_other(places.writer)
    # The record decides: a run that delivers the batch at this moment creates the same one. So the report comes after
    # it, and the report of a run that lost does not count.
    commit = checkpoint.create_commit(end.commit())
    if commit.outcome is not BatchOutcome.ABANDONED:
        raise TransientError(
            f"a run of {name} has delivered batch {number} meanwhile, so nothing was reset: look again, and pause the "
            "pipeline before you reset it",
            batch_number=number,
        )
    BatchReport.of_given_up(checkpoint, commit).keep(checkpoint)
    # What a run published of the batch right before this stays visible: readers drop it at the load that comes.
    try_to_show_ends(places, up_to=number)
    try_to_clean_up(places.reference(end.offset))


def is_given_up(places: PipelinePlaces, commit: CommitRecord) -> bool:
    """True if a batch was given up half delivered: it has staged changes, or its staged files are gone."""
    if commit.outcome is not BatchOutcome.ABANDONED:
        return False
    whole = places.folder_of_changes.whole(commit.batch_number)
    return whole is None or whole.rows > 0
