"""A pipeline checked against its table, and its next batch; nothing is written."""

from dataclasses import dataclass
from typing import Self

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.deliver.check_batch import BatchChecks
from icefloe.batch.open.claim_batch import fitted_to_sink, refuse_rows_without_key
from icefloe.batch.open.column_policies import pipeline_identity
from icefloe.batch.open.next_batch import NextBatch, next_batch, requested_batch
from icefloe.batch.open.next_range import RequestedRange
from icefloe.batch.open.recorded_pipeline import look_at_checkpoint
from icefloe.batch.plan.make_plan import PlannedBatch, plan_of, refuse_excessive_scan
from icefloe.batch.rows.row_shape import RowShape
from icefloe.changes.columns import ChangeColumns
from icefloe.checkpoint.batch_spec import Identity
from icefloe.errors import IcefloeError
from icefloe.iceberg.schemas.table_schema import TableSchema

__all__ = ["BatchPreview", "TableCheck"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCheck:
    """The table as the pipeline would read it; each method raises if it cannot."""

    session: PipelineSession

    def head_snapshot_id(self) -> int | None:
        """The newest snapshot of the branch; None if it has none."""
        newest = self.session.table.history.head(self.session.pipeline.branch)
        return None if newest is None else newest.snapshot_id

    def schema(self) -> TableSchema:
        """Schema of the newest snapshot."""
        return TableSchema.at(self.session.table.metadata, self.head_snapshot_id())

    def next_batch_number(self) -> int | None:
        """Number of the batch that a run would open or resume; None if there is nothing to do."""
        batch = next_batch(self.session, look_at_checkpoint(self.session))
        if batch is None:
            return None
        fitted_to_sink(batch)
        if self.session.pipeline.max_scan_bytes is not None and not batch.is_resumed:
            refuse_excessive_scan(batch, plan_of(batch))
        return batch.offset.batch_number

    def identity(self) -> Identity:
        """The identity of rows, which the sink accepts."""
        session, pipeline = self.session, self.session.pipeline
        with pipeline.with_lines():
            chosen = pipeline_identity(pipeline, session.table, self.schema())
            refuse_rows_without_key(session, chosen)
            return chosen

    def shape(self) -> RowShape:
        """Shape of the selected columns, none of which has a name of icefloe's own, with the filter."""
        pipeline = self.session.pipeline
        with pipeline.with_lines():
            shape = RowShape.of(
                self.schema(),
                identity=Identity(policy="none"),
                columns=pipeline.columns,
                filter_text=pipeline.filter,
                filter_as_written=pipeline.as_written.filter,
                table=pipeline.table,
            )
        ChangeColumns.refuse_in(shape.delivered.arrow.names, table=pipeline.table)
        return shape

    def checks(self) -> list[str]:
        """The names of the checks, whose queries fit the columns."""
        BatchChecks(self.session.pipeline).require_bound(self.shape().delivered.arrow)
        return [check.name for check in self.session.pipeline.checks]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPreview:
    """A batch as a run would plan it.

    Attributes:
        batch: the open one, otherwise the next one.
    """

    batch: NextBatch
    planned: PlannedBatch

    @classmethod
    def of(cls, session: PipelineSession, request: RequestedRange | None, *, cores: int) -> Self | str:
        """Plans the batch that a run would deliver, or says why it would deliver none."""
        if request is None:
            batch = next_batch(session, look_at_checkpoint(session), cores=cores)
        else:
            batch = requested_batch(session, request, cores=cores)
        if batch is None:
            return "nothing to do"
        if not batch.is_resumed:
            refuse_rows_without_key(session, batch.offset.spec.identity)
        elif batch.session.checkpoint.committed(batch.offset.batch_number) is not None:
            return "delivered before"
        return cls(batch=batch, planned=plan_of(batch))

    @property
    def snapshots_after(self) -> int | None:
        """Number of snapshots left to later batches; None for a backfill, and if the branch went elsewhere."""
        if self.planned.plan.backfill_id is not None:
            return None
        session, up_to = self.batch.session, self.planned.plan.spec.up_to_snapshot_id
        return session.table.history.lag(branch=session.pipeline.branch, cursor_snapshot_id=up_to).snapshots

    def refusal(self) -> str | None:
        """Why a run would not deliver the batch; None if it would."""
        try:
            refuse_excessive_scan(self.batch, self.planned)
        except IcefloeError as error:
            return error.sentence
        return None
