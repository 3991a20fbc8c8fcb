"""Ends a batch without changes, or completes such an end; records a batch that is whole at the sink as done.

The order of the writes decides every race, and lets any run complete what a killed one began:

1. the sink: an empty batch is made whole. No commit of a run can replace it.
2. the report
3. the checkpoint: the batch is done.
4. the folder of delivered files, if the batch was staged, for its readers

A run that delivers the batch makes it whole in step 1 too. The first there decides.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from icefloe.batch.context.references import Places
from icefloe.batch.context.session import PipelinePlaces
from icefloe.batch.report import BatchReport
from icefloe.changes.columns import ChangeType
from icefloe.checkpoint.log import CheckpointView
from icefloe.checkpoint.records import BatchOutcome, CommitRecord, Ending, OffsetRecord
from icefloe.errors import IcefloeError, TransientError
from icefloe.flow import Route
from icefloe.sinks.change_files import ChangeFiles
from icefloe.sinks.manifest import BatchSummary
from icefloe.units import now_text

__all__ = ["BatchEnd", "complete_unfinished_end", "missing_numbers", "show_ends", "try_to_show_ends"]

logger = logging.getLogger(__name__)

_VERBS: Final[Mapping[BatchOutcome, str]] = {
    BatchOutcome.DELIVERED: "was recorded by its manifest: the figures of its tasks are unknown",
    BatchOutcome.ABANDONED: "was abandoned: the next batch begins where it began",
    BatchOutcome.CURSOR_SET: "set the cursor to snapshot {}: the next batch begins there",
    BatchOutcome.RESET: "reset the pipeline: the next batch begins from scratch",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEnd:
    """The end that an open batch is given by hand, or by a run that completes what a killed command began.

    Attributes:
        delivered: the batch as its manifest has it, if it is whole at the sink and only its record is missing; None: it
            ends without changes.
    """

    places: PipelinePlaces
    offset: OffsetRecord
    ending: Ending
    delivered: BatchSummary | None = None

    @classmethod
    def of_open(cls, places: PipelinePlaces, offset: OffsetRecord) -> "BatchEnd":
        """The end of a batch that moves the cursor, or of any other batch that is given up."""
        ending = offset.ending if offset.ending.is_move else Ending.abandoned(offset.follows)
        return cls(places=places, offset=offset, ending=ending)

    @property
    def summary(self) -> BatchSummary:
        """The delivered batch, or one with an empty range: it differs from every batch that has a range."""
        if self.delivered is not None:
            return self.delivered
        return self.places.empty_batch(self.ending.batch_number, self.ending.cursor.snapshot_id)

    @property
    def is_begun(self) -> bool:
        """True if an empty batch at the sink can only come from this end."""
        spec, snapshot_id = self.offset.spec, self.ending.cursor.snapshot_id
        return bool(spec.steps) or (spec.after_snapshot_id, spec.up_to_snapshot_id) != (snapshot_id, snapshot_id)

    def commit(self) -> CommitRecord:
        """The commit record, made now."""
        summary = self.summary
        return CommitRecord(
            checkpoint_id=self.offset.checkpoint_id,
            ending=self.ending,
            committed_by=self.places.writer,
            after_snapshot_id=summary.after_snapshot_id,
            load_part=None if self.delivered is None else self.offset.spec.load_part,
            route=_shown_route(summary).value,
            steps=summary.steps,
            counts=summary.counts,
            committed_at=now_text(),
        )

    def record(self) -> CommitRecord:
        """Ends the batch; repeating it completes what was begun.

        Returns:
            The commit record that counts: this one, or the record of a faster run.

        Raises:
            TerminalError: files of a delivered batch are gone.
            TransientError: the batch was to be abandoned, and is delivered at the sink.
        """
        places, pipeline, number = self.places, self.places.pipeline, self.ending.batch_number
        folder, checkpoint = places.folder_of_changes, places.checkpoint
        if self.ending.outcome is BatchOutcome.RESET:
            self._show_gaps()
        checkpoint.refuse_other(places.writer)
        self._make_whole()
        commit, is_passed_on = self.commit(), self.delivered is not None and places.settings.delivers
        said = _VERBS[self.ending.outcome].format(self.ending.cursor.snapshot_id)
        BatchReport(
            batch=self.summary,
            backfill_id=places.backfill_id,
            route=Route(commit.route),
            changes=self.offset.spec.changes,
            warnings=(f"batch {number} {said} ({commit.committed_by})",),
            committed_at=commit.committed_at,
            delivery=places.reference(self.offset).delivery if is_passed_on else None,
        ).keep(checkpoint, commit.checkpoint_id)
        found = checkpoint.create_commit(commit)
        logger.info("batch %d of %s: %s", number, pipeline.name, found.outcome)
        try:
            folder.discard(number)
        except IcefloeError as error:
            logger.warning("files of batch %d that no reader sees remain at the sink: %s", number, error)
        try_to_show_ends(places, up_to=number)
        return found

    def _show_gaps(self) -> None:
        """Gives empty manifests to missing numbers before a reset; repeating it completes it."""
        folder = self.places.counted_folder
        if folder is None:
            return
        for number in missing_numbers(folder, before=self.ending.batch_number):
            # The batch before is whole by now. The chain of ranges stays unbroken until the reset.
            earlier = folder.whole(number - 1)
            snapshot_id = None if earlier is None else earlier.up_to_snapshot_id
            folder.commit(self.places.empty_batch(number, snapshot_id), ())

    def _make_whole(self) -> None:
        number, name, folder = self.ending.batch_number, self.places.pipeline.name, self.places.folder_of_changes
        folder.claim(self.places.origin(self.offset.checkpoint_id))
        try:
            folder.commit(self.summary, ())
        except IcefloeError:
            if self.offset.ending.is_move or folder.whole(number) in (None, self.summary):
                raise
            raise TransientError(
                f"batch {number} of {name} was delivered by a run meanwhile, so readers see its changes: nothing "
                f"was abandoned; repeat icefloe abandon {name}, or run it, and the batch is recorded as done",
                batch_number=number,
            ) from None


def _shown_route(summary: BatchSummary) -> Route:
    """The route, as far as the counts show it: only a shuffle removes rows."""
    if not summary.rows:
        return Route.NOTHING_TO_DO
    return Route.SHUFFLE if ChangeType.removed_rows(summary.counts) else Route.INSERT_ONLY


def show_ends(places: Places, *, up_to: int) -> None:
    """Gives batches that ended without changes their manifests; after that no late run can make them visible.

    That is in the folder in which readers count delivered batches. Batches before the last delivered one are not looked
    at.

    Args:
        up_to: the last batch that counts, inclusive.
    """
    folder, missing = places.delivered_folder, list[CommitRecord]()
    if folder is None:
        return
    for number in range(up_to, -1, -1):
        commit = places.checkpoint.committed(number)
        if commit is None or commit.outcome is BatchOutcome.DELIVERED or folder.whole(number) is not None:
            break
        missing.append(commit)
    # In the order of their manifests: before one that has it, none is missing.
    for commit in reversed(missing):
        folder.claim(places.origin(commit.checkpoint_id))
        folder.commit(places.empty_batch(commit.batch_number, commit.end.snapshot_id), ())
        folder.discard(commit.batch_number)


def try_to_show_ends(places: PipelinePlaces, *, up_to: int) -> None:
    """`show_ends` for an end that is recorded already: a failure is no error any more."""
    try:
        show_ends(places, up_to=up_to)
    except IcefloeError as error:
        logger.warning("readers learn of the end of batch %d with the next batch that is delivered: %s", up_to, error)


def missing_numbers(folder: ChangeFiles | None, *, before: int | None = None) -> list[int]:
    """Numbers without a manifest behind one that has it and before the given one (None: the last), ascending."""
    found = [] if folder is None else folder.whole_batches()
    if not found:
        return []
    # Those before the first may be deleted, as everybody has read them.
    return sorted(set(range(found[0], found[-1] if before is None else before)) - set(found))


def complete_unfinished_end(places: PipelinePlaces, view: CheckpointView) -> CommitRecord | None:
    """Completes the end without changes that somebody began for the open batch; None if nobody did."""
    if view.opened is None:
        return None
    end = BatchEnd.of_open(places, view.opened)
    if view.opened.ending.is_move:
        return end.record()
    # An empty batch at the sink shows that somebody gave the batch up.
    is_closed = end.is_begun and places.folder_of_changes.whole(view.opened.batch_number) == end.summary
    return end.record() if is_closed else None
