"""Ending an open batch by hand: given up if no reader has seen anything of it, otherwise recorded as done."""

from dataclasses import dataclass, replace
from typing import Final, Self

from icefloe.batch.context.end_batch import BatchEnd, try_to_show_ends
from icefloe.batch.context.session import PipelinePlaces
from icefloe.batch.deliver.commit_batch import try_to_clean_up
from icefloe.batch.open.recorded_pipeline import look_at_checkpoint
from icefloe.batch.report import BatchReport
from icefloe.batch.status import PipelineStatus
from icefloe.checkpoint.log import CheckpointView
from icefloe.checkpoint.protocol import BatchState
from icefloe.checkpoint.records import BatchOutcome, Ending, OffsetRecord
from icefloe.errors import TerminalError, TransientError
from icefloe.pipeline.model import ChangesPlace
from icefloe.sinks.manifest import BatchSummary

__all__ = ["AbandonedBatch"]

_MOST_NAMED: Final = 10


class BatchStateError(TerminalError):
    """A command cannot act in the state of the pipeline's open batch, or of its load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbandonedBatch(BatchEnd):
    """The end that somebody gives the open batch, and what its documents say.

    Attributes:
        whole: the batch as its manifest has it; None: no manifest.
        other: place of its changes; None: not known to be another one than today's.
    """

    whole: BatchSummary | None
    state: BatchState
    other: ChangesPlace | None

    @classmethod
    def _of(cls, places: PipelinePlaces, opened: OffsetRecord) -> Self:
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
        other = recorded if is_elsewhere else None
        return cls(places=places, offset=opened, ending=end.ending, whole=whole, state=state, other=other)

    @property
    def may_be_delivered_elsewhere(self) -> bool:
        """True if nothing here shows whether the changes in another folder were delivered."""
        return self.other is not None and self.whole in (None, self.summary)

    @classmethod
    def find(cls, places: PipelinePlaces) -> Self | None:
        """The end that the open batch can have; None if no batch is open. Changes nothing.

        Raises:
            BatchStateError: the open batch only moves the cursor, or the sink may hold a part of it.
            TerminalError: its changes or the checkpoint are elsewhere than the pipeline file says.
        """
        view, pipeline = look_at_checkpoint(places), places.pipeline
        opened, name = view.opened, pipeline.name
        if view.checkpoint_id is None and places.backfill_id is not None:
            known = {each.key.split("/")[1] for each in places.open_storage(pipeline.checkpoint_url).list("backfills")}
            listed = f"it has {', '.join(sorted(known)[-_MOST_NAMED:])}" if known else "it has none"
            raise TerminalError(f"pipeline {name} has no backfill {places.backfill_id}: {listed}; correct the ID")
        if opened is None:
            return None
        number = opened.batch_number
        if opened.ending.is_move:
            raise BatchStateError(
                f"batch {number} of {name} only moves the cursor ({opened.ending.outcome}), so there is nothing to "
                f"abandon; icefloe run {name} completes it",
                batch_number=number,
            )
        places.folder_of_changes.claim(places.origin(opened.checkpoint_id), only_looks=True)
        found = cls._of(places, opened)
        if found.whole is not None and found.state.can_be_recorded:
            # A run records it too, unless the table was replaced, keys were edited, or its files and its range are
            # gone.
            return replace(found, ending=opened.ending, delivered=found.whole)
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
                f"batch {number} of {name} is proven and {sink} may hold a part of it, so it cannot be abandoned: "
                f"icefloe run {name} delivers the rest; if {sink} refuses that for good, icefloe reset {name} gives "
                "the batch up and loads the table again",
                batch_number=number,
            )
        return found

    def make(self) -> BatchOutcome:
        """Ends the batch; repeating it completes what was begun.

        Returns:
            The outcome that counts. It says whether this call or a run that delivered the batch was faster.

        Raises:
            TransientError: the batch was to be given up, and a run has made it whole at the sink meanwhile.
        """
        commit = self.record()
        # The cleanup of the next batch takes what remains.
        try_to_clean_up(self.places.reference(self.offset))
        if self.places.backfill_id is None:
            PipelineStatus.publish(self.places, phase="cleanup")
        return commit.outcome

    @classmethod
    def half_delivered(cls, places: PipelinePlaces, view: CheckpointView) -> Self | None:
        """The end that a reset gives to the open batch; None if no batch is open, or if it can be abandoned alone."""
        opened = view.opened
        if opened is None or opened.ending.is_move:
            return None
        found = cls._of(places, opened)
        # In another folder it may be whole, and then the sink may have a part: a load replaces that in any case.
        is_elsewhere = places.pipeline.delivers and found.may_be_delivered_elsewhere
        if not is_elsewhere and not found.state.can_be_given_up:
            return None
        # At the beginning, so that whatever comes next is a load, also if the reset is killed right after this.
        return replace(found, ending=Ending.abandoned(opened.follows, is_half_delivered=True))

    def give_up(self) -> None:
        """Fences late tasks of a half-delivered batch; `TransientError` if a run has delivered it."""
        places, number = self.places, self.offset.batch_number
        checkpoint, name = places.checkpoint, places.pipeline.name
        checkpoint.refuse_other(places.writer)
        # The record decides: a run that delivers the batch at this moment creates the same one. So the report comes
        # after it, and the report of a run that lost does not count.
        commit = checkpoint.create_commit(self.commit())
        if commit.outcome is not BatchOutcome.ABANDONED:
            raise TransientError(
                f"a run of {name} has delivered batch {number} meanwhile, so nothing was reset: look again, and pause "
                "the pipeline before you reset it",
                batch_number=number,
            )
        BatchReport.of_given_up(checkpoint, commit).keep(checkpoint, commit.checkpoint_id)
        # What a run published of the batch right before this stays visible: readers drop it at the load that comes.
        try_to_show_ends(places, up_to=number)
        try_to_clean_up(places.reference(self.offset))
