"""Beginning a pipeline again: with its initial load, its present configuration and its present table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.ends.empty_end import EmptyEnd
from icefloe.batch.open.recorded_pipeline import ConfigurationChangedError, pipeline_record, refuse_other_meaning
from icefloe.batch.operations.cursor_move import PipelineView, make_move
from icefloe.batch.operations.half_delivered import give_up_delivery
from icefloe.checkpoint.ending import BatchOutcome, Cursor
from icefloe.checkpoint.records import CommitRecord, OffsetRecord, PipelineRecord
from icefloe.iceberg.history.history import History
from icefloe.iceberg.history.summaries import total_records

__all__ = ["PipelineReset"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineReset:
    """A reset that was not made yet.

    Attributes:
        cursor: present cursor, which the reset gives up.
        differences: key, recorded value and present value of each difference from the recorded pipeline.
        rows: rows of the table now, by the summary of its head; None if it does not say.
        offset: record of the batch that resets the pipeline.
        given_up: end of an open batch that is half delivered, and is given up by the reset; None: no batch is open.
    """

    cursor: Cursor | None
    differences: Sequence[tuple[str, object, object]]
    rows: int | None
    offset: OffsetRecord
    given_up: EmptyEnd | None = None

    @classmethod
    def plan(cls, session: PipelineSession) -> Self | None:
        """The reset of a pipeline; None if it begins with its next batch anyway. Changes nothing.

        Raises:
            BatchStateError: a batch is open, and can be finished or abandoned.
            TerminalError: the identifier columns do not fit the table.
        """
        found = PipelineView.of(session, gives_up=True)
        view, fresh = found.view, found.session
        if view.pipeline is None:
            return None
        identity = found.chosen_identity(found.head_id())
        differences = _differences(fresh, view.pipeline)
        if identity != view.pipeline.identity:
            differences = [*differences, ("identity", list(view.pipeline.identity.columns), list(identity.columns))]
        if not found.given_up and not differences and (view.cursor is None or view.cursor.is_beginning):
            return None
        record = pipeline_record(fresh, identity, checkpoint_id=view.pipeline.checkpoint_id) if differences else None
        return cls(
            cursor=view.cursor,
            differences=differences,
            rows=total_records(History.of(fresh.table).head(fresh.pipeline.branch)),
            offset=found.offset(BatchOutcome.RESET, None, identity, record),
            given_up=found.given_up,
        )

    def make(self, session: PipelineSession) -> CommitRecord:
        """Makes this reset; returns the commit record that counts.

        Raises:
            TransientError: a run has delivered the batch that was to be given up.
            IcefloeError: see `make_move`.
        """
        if self.given_up is not None:
            give_up_delivery(session, self.given_up)
        return make_move(session, self.offset)


def _differences(session: PipelineSession, recorded: PipelineRecord) -> list[tuple[str, object, object]]:
    """The differences that would stop the next batch of the pipeline: another table, keys that were edited."""
    try:
        refuse_other_meaning(session, recorded)
    except ConfigurationChangedError as error:
        return [*error.differences] or [("table", error.recorded, error.current)]
    return []
