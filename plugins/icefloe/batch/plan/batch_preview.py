"""The batch that a run would deliver, planned and not opened: nothing is written."""

from dataclasses import dataclass
from enum import StrEnum

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.open.next_batch import NextBatch, next_batch, requested_batch
from icefloe.batch.open.requested_range import RequestedRange
from icefloe.batch.open.unfit_sink import refuse_rows_without_key
from icefloe.batch.plan.make_plan import PlannedBatch
from icefloe.batch.plan.plan_of_batch import plan_of, refuse_excessive_scan, refuse_unfit
from icefloe.batch.plan_document import Plan
from icefloe.errors import IcefloeError
from icefloe.iceberg.history.history import History
from icefloe.iceberg.history.lag import lag

__all__ = ["BatchPreview", "next_plannable", "preview_batch"]


class NoBatch(StrEnum):
    """The reason why a run would deliver nothing."""

    NOTHING_TO_DO = "nothing to do"
    DELIVERED_BEFORE = "delivered before"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPreview:
    """A batch as a run would plan it.

    Attributes:
        batch: the open batch, otherwise the next one.
        planned: its plan and map tasks.
    """

    batch: NextBatch
    planned: PlannedBatch

    @property
    def plan(self) -> Plan:
        """The plan."""
        return self.planned.plan

    @property
    def opened_at(self) -> str | None:
        """Time at which the batch was opened; None if a run would open it."""
        return self.batch.offset.opened_at if self.batch.is_resumed else None

    @property
    def changes_path(self) -> str:
        """Folder of the files that the batch would write."""
        return str(self.batch.session.settings.sink["path"])

    @property
    def files(self) -> int:
        """Number of data files that the map tasks read."""
        return len({work.data_file.path for task in self.planned.tasks for work in task.files})

    @property
    def delete_files(self) -> int:
        """Number of delete files that the map tasks read; each deletion vector counts as one."""
        return len({(file.path, file.content_offset) for task in self.planned.tasks for file in task.delete_files})

    @property
    def snapshots_after(self) -> int | None:
        """Number of snapshots left to later batches; None for a backfill, and if the branch went elsewhere."""
        if self.plan.backfill_id is not None:
            return None
        session, up_to = self.batch.session, self.plan.up_to_snapshot_id
        return lag(History.of(session.table), branch=session.pipeline.branch, cursor_snapshot_id=up_to).snapshots

    def refusal(self) -> str | None:
        """The reason why a run would not deliver the planned batch; None if there is none."""
        try:
            refuse_excessive_scan(self.batch, self.planned)
        except IcefloeError as error:
            return error.sentence
        return None


def preview_batch(
    session: PipelineSession, request: RequestedRange | None, *, cores: int | None
) -> BatchPreview | NoBatch:
    """Plans the batch that a run would deliver.

    Args:
        session: of the pipeline.
        request: a range makes it a backfill.
        cores: cores of the Spark master; None: as its configuration or this machine says.

    Raises:
        IcefloeError: no batch can be planned; see `next_batch`.
    """
    batch = next_batch(session, cores=cores) if request is None else requested_batch(session, request, cores=cores)
    if batch is None:
        return NoBatch.NOTHING_TO_DO
    if not batch.is_resumed:
        refuse_rows_without_key(session, batch.offset.spec.identity)
    elif batch.session.checkpoint.committed(batch.offset.batch_number) is not None:
        return NoBatch.DELIVERED_BEFORE
    return BatchPreview(batch=batch, planned=plan_of(batch))


def next_plannable(session: PipelineSession) -> int | None:
    """Number of the batch that a run would open or resume; None if there is nothing to do.

    Raises:
        IcefloeError: no batch can be opened or resumed; the error says why.
    """
    batch = next_batch(session)
    if batch is None:
        return None
    refuse_unfit(batch)
    return batch.offset.batch_number
