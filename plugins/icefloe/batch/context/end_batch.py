"""Ends a batch without changes, or completes such an end.

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

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.report import BatchReport
from icefloe.checkpoint.log import Checkpoint, CheckpointView
from icefloe.checkpoint.records import BatchOutcome, CommitRecord, Ending, OffsetRecord, Writer
from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.flow import Route
from icefloe.pipeline.model import Pipeline
from icefloe.sinks.batch_to_deliver import Origin
from icefloe.sinks.change_files import ChangeFiles
from icefloe.sinks.manifest import BatchSummary
from icefloe.units import now_text

__all__ = [
    "BatchStateError",
    "EmptyEnd",
    "complete_unfinished_end",
    "end_here",
    "end_without_changes",
    "missing_numbers",
    "show_end",
    "show_ends",
    "try_to_show_ends",
]

logger = logging.getLogger(__name__)

_VERBS: Final[Mapping[BatchOutcome, str]] = {
    BatchOutcome.ABANDONED: "was abandoned: the next batch begins where it began",
    BatchOutcome.CURSOR_SET: "set the cursor to snapshot {}: the next batch begins there",
    BatchOutcome.RESET: "reset the pipeline: the next batch begins from scratch",
}


class BatchStateError(TerminalError):
    """A command cannot act in the state of the pipeline's open batch, or of its load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyEnd:
    """A batch of a pipeline that is to end without changes."""

    pipeline: str
    table: str
    offset: OffsetRecord
    ending: Ending

    @classmethod
    def of_open(cls, offset: OffsetRecord, pipeline: Pipeline) -> "EmptyEnd":
        """The end of a batch that moves the cursor, or of any other batch that is given up."""
        ending = offset.ending if offset.ending.is_move else Ending.abandoned(offset.follows)
        return cls(pipeline=pipeline.name, table=pipeline.table, offset=offset, ending=ending)

    @property
    def summary(self) -> BatchSummary:
        """The batch with an empty range: it differs from every batch that has a range."""
        number, snapshot_id = self.ending.batch_number, self.ending.cursor.snapshot_id
        return BatchSummary.empty(self.pipeline, self.table, batch_number=number, snapshot_id=snapshot_id)

    def commit(self, writer: Writer) -> CommitRecord:
        """The commit record, made now."""
        return CommitRecord(
            checkpoint_id=self.offset.checkpoint_id,
            ending=self.ending,
            committed_by=writer,
            after_snapshot_id=self.ending.cursor.snapshot_id,
            route=Route.NOTHING_TO_DO.value,
            steps=0,
            counts=self.summary.counts,
            committed_at=now_text(),
        )

    def report(self, commit: CommitRecord) -> BatchReport:
        """The report for a commit record that `commit` made."""
        said = _VERBS[self.ending.outcome].format(self.ending.cursor.snapshot_id)
        return BatchReport(
            batch=self.summary,
            changes=self.offset.spec.changes,
            warnings=(f"batch {self.ending.batch_number} {said} ({commit.committed_by})",),
            committed_at=commit.committed_at,
        )

    @property
    def is_begun(self) -> bool:
        """True if an empty batch at the sink can only come from this end."""
        spec, snapshot_id = self.offset.spec, self.ending.cursor.snapshot_id
        return bool(spec.steps) or (spec.after_snapshot_id, spec.up_to_snapshot_id) != (snapshot_id, snapshot_id)


def show_ends(checkpoint: Checkpoint, folder: ChangeFiles | None, *, up_to: int, pipeline: str, table: str) -> None:
    """Gives batches that ended without changes their manifests; after that no late run can make them visible.

    Batches before the last delivered one are not looked at.

    Args:
        folder: the folder in which readers count delivered batches; None: there is none.
        up_to: the last batch that counts, inclusive.
    """
    if folder is None:
        return
    for commit in _missing(checkpoint, folder, up_to):
        show_end(commit, folder, pipeline=pipeline, table=table)


def show_end(commit: CommitRecord, folder: ChangeFiles, *, pipeline: str, table: str) -> None:
    """`show_ends` of one batch."""
    number = commit.batch_number
    folder.claim(Origin(owner=commit.checkpoint_id, pipeline=pipeline, table=table))
    folder.commit(BatchSummary.empty(pipeline, table, batch_number=number, snapshot_id=commit.up_to_snapshot_id), ())
    folder.discard(number)


def try_to_show_ends(
    checkpoint: Checkpoint, folder: ChangeFiles | None, *, up_to: int, pipeline: str, table: str
) -> None:
    """`show_ends` for an end that is recorded already: a failure is no error any more."""
    try:
        show_ends(checkpoint, folder, up_to=up_to, pipeline=pipeline, table=table)
    except IcefloeError as error:
        logger.warning("readers learn of the end of batch %d with the next batch that is delivered: %s", up_to, error)


def show_gaps(folder: ChangeFiles | None, *, before: int, pipeline: str, table: str) -> None:
    """Gives empty manifests to missing numbers before a reset (``before``); repeating it completes it."""
    if folder is None:
        return
    for number in missing_numbers(folder, before=before):
        # The batch before is whole by now. The chain of ranges stays unbroken until the reset.
        earlier = folder.whole(number - 1)
        snapshot_id = None if earlier is None else earlier.up_to_snapshot_id
        folder.commit(BatchSummary.empty(pipeline, table, batch_number=number, snapshot_id=snapshot_id), ())


def missing_numbers(folder: ChangeFiles | None, *, before: int | None = None) -> list[int]:
    """Numbers without a manifest behind one that has it and before the given one (None: the last), ascending."""
    found = [] if folder is None else folder.whole_batches()
    if not found:
        return []
    # Those before the first may be deleted, as everybody has read them.
    return sorted(set(range(found[0], found[-1] if before is None else before)) - set(found))


def _missing(checkpoint: Checkpoint, folder: ChangeFiles, up_to: int) -> list[CommitRecord]:
    """In the order of their manifests: before one that has it, none is missing."""
    found: list[CommitRecord] = []
    for number in range(up_to, -1, -1):
        commit = checkpoint.committed(number)
        if commit is None or commit.outcome is BatchOutcome.DELIVERED or folder.whole(number) is not None:
            break
        found.insert(0, commit)
    return found


def complete_unfinished_end(session: PipelineSession, view: CheckpointView) -> CommitRecord | None:
    """Completes the end without changes that somebody began for the open batch; None if nobody did."""
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
        sink: the folder to which tasks write changes.
        delivered: the folder in which readers count delivered batches; None: ``sink``, or none at all.

    Returns:
        The commit record that counts: this one, or the record of a faster run.

    Raises:
        TransientError: the batch was to be abandoned, and is delivered at the sink.
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
    sink.claim(Origin(owner=end.offset.checkpoint_id, pipeline=end.pipeline, table=end.table))
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
