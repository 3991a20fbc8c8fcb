"""A batch that ends without changes, because it was abandoned or only moves the cursor: its records, as values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from icefloe.batch.report import BatchReport
from icefloe.changes.columns import ChangeType
from icefloe.checkpoint.ending import BatchOutcome, Ending
from icefloe.checkpoint.records import CommitRecord, OffsetRecord, Writer
from icefloe.errors import TerminalError
from icefloe.flow import Route
from icefloe.pipeline.model import Pipeline
from icefloe.sinks.manifest import BatchSummary
from icefloe.units import now_text

__all__ = ["BatchStateError", "EmptyEnd"]

_NO_CHANGES: Final[Mapping[str, int]] = {each.name.lower(): 0 for each in ChangeType}
_VERBS: Final[Mapping[BatchOutcome, str]] = {
    BatchOutcome.ABANDONED: "was abandoned: the next batch begins where it began",
    BatchOutcome.CURSOR_SET: "set the cursor: the next batch begins there",
    BatchOutcome.RESET: "reset the pipeline: the next batch begins from scratch",
}


class BatchStateError(TerminalError):
    """A command cannot act in the state that the pipeline's open batch, or its load, is in."""


def empty_summary(pipeline: str, table: str, *, batch_number: int, snapshot_id: int | None) -> BatchSummary:
    """A batch without changes as its sink gets it.

    Args:
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
        ending: the end that it is to come to.
    """

    pipeline: str
    table: str
    offset: OffsetRecord
    ending: Ending

    @classmethod
    def of_open(cls, offset: OffsetRecord, pipeline: Pipeline) -> "EmptyEnd":
        """The end of a batch that moves the cursor, or the end of any other batch that is given up."""
        ending = offset.ending if offset.ending.is_move else Ending.abandoned(offset.follows)
        return cls(pipeline=pipeline.name, table=pipeline.table, offset=offset, ending=ending)

    @property
    def summary(self) -> BatchSummary:
        """The batch as its sink gets it. Its range is empty, so it differs from every batch that has a range."""
        number, snapshot_id = self.ending.batch_number, self.ending.cursor.snapshot_id
        return empty_summary(self.pipeline, self.table, batch_number=number, snapshot_id=snapshot_id)

    def commit(self, writer: Writer) -> CommitRecord:
        """The commit record of the batch, made now."""
        return CommitRecord(
            checkpoint_id=self.offset.checkpoint_id,
            ending=self.ending,
            committed_by=writer,
            after_snapshot_id=self.ending.cursor.snapshot_id,
            route=Route.NOTHING_TO_DO.value,
            steps=0,
            counts=_NO_CHANGES,
            committed_at=now_text(),
        )

    def report(self, commit: CommitRecord) -> BatchReport:
        """The report of the batch, for a commit record that `commit` made."""
        return BatchReport.without_changes(
            commit,
            pipeline=self.pipeline,
            table=self.table,
            changes=self.offset.spec.changes,
            why=f"batch {self.ending.batch_number} {_VERBS[self.ending.outcome]} ({commit.committed_by})",
        )

    @property
    def is_begun(self) -> bool:
        """True if an empty batch at the sink can only come from this end, not from a run that delivers the batch."""
        spec, snapshot_id = self.offset.spec, self.ending.cursor.snapshot_id
        return bool(spec.steps) or (spec.after_snapshot_id, spec.up_to_snapshot_id) != (snapshot_id, snapshot_id)
