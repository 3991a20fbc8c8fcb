"""A batch that ends without changes, because it was abandoned or only moves the cursor.

The order of the writes decides every race, and lets any run complete what a killed one began:

1. the sink: an empty batch is made whole. No commit of a run can replace it, so nothing becomes visible any more.
2. the report
3. the checkpoint: the batch is done, and the cursor stays or moves.

A run that delivers the batch makes it whole in step 1 too. Whoever is first there decides.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from icefloe.batch.commit.report import BatchReport, keep_report
from icefloe.changes.columns import ChangeType
from icefloe.checkpoint.cursor import BatchOutcome, Cursor
from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.records import CommitRecord, OffsetRecord, Writer, format_of
from icefloe.checkpoint.view import CheckpointView
from icefloe.errors import IcefloeError, TerminalError
from icefloe.sinks.sink import BatchSummary, Sink
from icefloe.units import now_text

__all__ = ["EmptyEnd", "end_without_changes", "unfinished_end"]

logger = logging.getLogger(__name__)

_NO_CHANGES: Final[Mapping[str, int]] = {each.name.lower(): 0 for each in ChangeType}


class DeliveredError(TerminalError):
    """A batch is whole at the sink, so that it can no longer be ended without changes."""

    batch_number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyEnd:
    """A batch of a pipeline that is to end without changes.

    Attributes:
        pipeline: name of the pipeline.
        table: name of its table.
        offset: the batch.
        outcome: reason for its end.
        cursor: cursor behind it.
    """

    pipeline: str
    table: str
    offset: OffsetRecord
    outcome: BatchOutcome
    cursor: Cursor

    @classmethod
    def of_move(cls, offset: OffsetRecord, *, pipeline: str, table: str) -> "EmptyEnd | None":
        """The end of a batch that moves the cursor; None for any other batch."""
        if offset.move is None:
            return None
        number = offset.batch_number
        since = None if offset.follows is None else offset.follows.pipeline_since
        since = since if offset.move.pipeline is None else number
        if offset.move.outcome is BatchOutcome.RESET:
            cursor = Cursor.beginning(number, pipeline_since=since)
        else:
            cursor = Cursor(batch_number=number, snapshot_id=offset.up_to_snapshot_id, pipeline_since=since)
        return cls(pipeline=pipeline, table=table, offset=offset, outcome=offset.move.outcome, cursor=cursor)

    @classmethod
    def of_abandoned(cls, offset: OffsetRecord, before: Cursor | None, *, pipeline: str, table: str) -> "EmptyEnd":
        """The end of a batch that is given up: the cursor stays at ``before``, the end of the batch before it."""
        number = offset.batch_number
        cursor = Cursor.beginning(number) if before is None else before.behind(number)
        return cls(pipeline=pipeline, table=table, offset=offset, outcome=BatchOutcome.ABANDONED, cursor=cursor)

    @property
    def summary(self) -> BatchSummary:
        """The batch as its sink gets it. Its range is empty, so it differs from every batch that has a range."""
        return BatchSummary(
            pipeline=self.pipeline,
            table=self.table,
            batch_number=self.offset.batch_number,
            after_snapshot_id=self.cursor.snapshot_id,
            up_to_snapshot_id=self.cursor.snapshot_id,
            steps=0,
            rows=0,
            counts=_NO_CHANGES,
            hash_sum=0,
        )

    def commit(self, writer: Writer) -> CommitRecord:
        """The commit record of the batch, made now."""
        return CommitRecord(
            version=format_of(self.cursor),
            batch_number=self.offset.batch_number,
            checkpoint_id=self.offset.checkpoint_id,
            committed_by=writer,
            after_snapshot_id=self.cursor.snapshot_id,
            up_to_snapshot_id=self.cursor.snapshot_id,
            route=self.outcome.value,
            steps=0,
            counts=_NO_CHANGES,
            committed_at=now_text(),
            load_part=self.cursor.load_part,
            is_beginning=self.cursor.is_beginning,
            pipeline_since=self.cursor.pipeline_since,
        )

    @property
    def is_begun(self) -> bool:
        """True if an empty batch at the sink can only come from this end, not from a run that delivers the batch."""
        spec = self.offset.spec
        return bool(spec.steps) or (spec.after_snapshot_id, spec.up_to_snapshot_id) != (
            self.cursor.snapshot_id, self.cursor.snapshot_id,
        )  # fmt: skip


def unfinished_end(view: CheckpointView, sink: Sink, *, pipeline: str, table: str) -> EmptyEnd | None:
    """The end without changes that somebody began for the open batch and did not complete; None if nobody did."""
    opened = view.opened
    if opened is None:
        return None
    move = EmptyEnd.of_move(opened, pipeline=pipeline, table=table)
    if move is not None:
        return move
    end = EmptyEnd.of_abandoned(opened, view.cursor, pipeline=pipeline, table=table)
    return end if end.is_begun and sink.whole(opened.batch_number) == end.summary else None


def end_without_changes(end: EmptyEnd, *, checkpoint: Checkpoint, sink: Sink, writer: Writer) -> CommitRecord:
    """Ends a batch without changes; repeating it completes what was begun.

    Returns:
        The commit record that counts: this one, or the record of a run that was faster.

    Raises:
        DeliveredError: the batch is delivered at the sink.
        OtherOwnerError: the checkpoint belongs to another owner.
    """
    number = end.offset.batch_number
    checkpoint.refuse_other(writer)
    _make_whole(end, sink)
    commit = end.commit(writer)
    keep_report(
        checkpoint,
        BatchReport.without_changes(
            commit, pipeline=end.pipeline, table=end.table, changes=end.offset.spec.changes, why=_reason(end, writer)
        ),
    )
    found = checkpoint.create_empty_commit(commit)
    logger.info("batch %d of %s: %s", number, end.pipeline, found.outcome)
    try:
        sink.discard(number)
    except IcefloeError as error:
        logger.warning("files of batch %d that no reader sees remain at the sink: %s", number, error)
    return found


def _make_whole(end: EmptyEnd, sink: Sink) -> None:
    number, summary = end.offset.batch_number, end.summary
    try:
        sink.commit(summary, ())
    except IcefloeError:
        if sink.whole(number) in (None, summary):
            raise
        raise DeliveredError(
            f"batch {number} of {end.pipeline} was delivered by a run meanwhile, so readers see its changes: nothing "
            f"was abandoned; repeat icefloe abandon {end.pipeline}, or run it, and the batch is recorded as done",
            batch_number=number,
        ) from None


def _reason(end: EmptyEnd, writer: Writer) -> str:
    verbs: Mapping[BatchOutcome, str] = {
        BatchOutcome.ABANDONED: "was abandoned: the next batch begins where it began",
        BatchOutcome.CURSOR_SET: f"set the cursor to snapshot {end.cursor.snapshot_id}: the next batch begins there",
        BatchOutcome.RESET: "reset the pipeline: the next batch begins from scratch",
    }
    return f"batch {end.offset.batch_number} {verbs[end.outcome]} ({writer})"
