"""A batch that ends without changes, because it was abandoned or only moves the cursor: its records, as values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from icefloe.batch.report import BatchReport
from icefloe.changes.columns import ChangeType
from icefloe.checkpoint.cursor import BatchOutcome, Cursor
from icefloe.checkpoint.records import CommitRecord, OffsetRecord, Writer
from icefloe.sinks.manifest import BatchSummary
from icefloe.units import now_text

__all__ = ["EmptyEnd"]

_NO_CHANGES: Final[Mapping[str, int]] = {each.name.lower(): 0 for each in ChangeType}


def empty_summary(pipeline: str, table: str, *, batch_number: int, snapshot_id: int | None) -> BatchSummary:
    """A batch without changes as its sink gets it.

    Args:
        pipeline: name of the pipeline.
        table: name of its table.
        batch_number: number of the batch.
        snapshot_id: snapshot of the cursor after the batch; None: the pipeline begins.
    """
    return BatchSummary(
        pipeline=pipeline,
        table=table,
        batch_number=batch_number,
        after_snapshot_id=snapshot_id,
        up_to_snapshot_id=snapshot_id,
        steps=0,
        rows=0,
        counts=_NO_CHANGES,
        hash_sum=0,
        hash_key=0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyEnd:
    """A batch of a pipeline that is to end without changes.

    Attributes:
        pipeline: name of the pipeline.
        table: name of its table.
        offset: the batch.
        outcome: reason for its end.
        cursor: cursor after it.
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
            cursor = Cursor(
                batch_number=number,
                snapshot_id=offset.up_to_snapshot_id,
                pipeline_since=since,
                snapshot=offset.snapshot,
            )
        return cls(pipeline=pipeline, table=table, offset=offset, outcome=offset.move.outcome, cursor=cursor)

    @classmethod
    def of_abandoned(cls, offset: OffsetRecord, before: Cursor | None, *, pipeline: str, table: str) -> "EmptyEnd":
        """The end of a batch that is given up: the cursor stays at ``before``, the end of the batch before it."""
        number = offset.batch_number
        cursor = Cursor.beginning(number) if before is None else before.at_batch(number)
        return cls(pipeline=pipeline, table=table, offset=offset, outcome=BatchOutcome.ABANDONED, cursor=cursor)

    @property
    def summary(self) -> BatchSummary:
        """The batch as its sink gets it. Its range is empty, so it differs from every batch that has a range."""
        number, snapshot_id = self.offset.batch_number, self.cursor.snapshot_id
        return empty_summary(self.pipeline, self.table, batch_number=number, snapshot_id=snapshot_id)

    def commit(self, writer: Writer) -> CommitRecord:
        """The commit record of the batch, made now."""
        return CommitRecord(
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
            snapshot=self.cursor.snapshot,
        )

    def report(self, commit: CommitRecord) -> BatchReport:
        """The report of the batch, for a commit record that `commit` made."""
        verbs: Mapping[BatchOutcome, str] = {
            BatchOutcome.ABANDONED: "was abandoned: the next batch begins where it began",
            BatchOutcome.CURSOR_SET: (
                f"set the cursor to snapshot {self.cursor.snapshot_id}: the next batch begins there"
            ),
            BatchOutcome.RESET: "reset the pipeline: the next batch begins from scratch",
        }
        return BatchReport.without_changes(
            commit,
            pipeline=self.pipeline,
            table=self.table,
            changes=self.offset.spec.changes,
            why=f"batch {self.offset.batch_number} {verbs[self.outcome]} ({commit.committed_by})",
        )

    @property
    def is_begun(self) -> bool:
        """True if an empty batch at the sink can only come from this end, not from a run that delivers the batch."""
        spec = self.offset.spec
        return bool(spec.steps) or (spec.after_snapshot_id, spec.up_to_snapshot_id) != (
            self.cursor.snapshot_id, self.cursor.snapshot_id,
        )  # fmt: skip
