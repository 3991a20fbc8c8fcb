"""The next batch is opened and its plan is written; repeating it finds both."""

import logging
from dataclasses import dataclass, field
from typing import Final

from icefloe.batch.context.references import BatchReference
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.ends.end_batch import complete_unfinished_end
from icefloe.batch.open.claim_batch import claim_batch
from icefloe.batch.open.next_batch import NextBatch, next_batch, requested_batch
from icefloe.batch.open.pin import pin_pending, try_to_pin
from icefloe.batch.open.requested_range import RequestedRange
from icefloe.batch.plan.recorded_plan import found_plan
from icefloe.batch.plan.write_plan import write_plan
from icefloe.batch.plan_document import Plan
from icefloe.batch.report import BatchReport
from icefloe.errors import IcefloeError, TransientError
from icefloe.flow import Route

__all__ = ["open_and_plan"]

logger = logging.getLogger(__name__)

_LOOKS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedBatch:
    """An opened batch with its plan, as the later tasks of a run receive it.

    Attributes:
        reference: reference to the batch; None if there is nothing to do.
        plan: plan of the batch; also None if the batch was committed before.
        report: report of a batch that was committed before; only a backfill that is already done has one.
        is_resumed: True if the batch was open before.
    """

    reference: BatchReference | None = None
    plan: Plan | None = None
    report: BatchReport | None = None
    is_resumed: bool = field(default=False, compare=False)

    @property
    def plan_url(self) -> str | None:
        """URL of the plan, the one argument of the later tasks."""
        return None if self.reference is None else self.reference.plan_url

    @property
    def is_committed(self) -> bool:
        """True if there is nothing left to do for this batch."""
        return self.report is not None

    @property
    def route(self) -> Route:
        """The way through the DAG."""
        return Route.NOTHING_TO_DO if self.plan is None else self.plan.route


def open_and_plan(
    session: PipelineSession, request: RequestedRange | None = None, *, cores: int | None = None
) -> OpenedBatch:
    """Opens or resumes a batch and writes its plan.

    Args:
        session: session of the pipeline.
        request: a range makes the run a backfill.
        cores: cores of the Spark master; None: as its configuration or this machine says.

    Raises:
        NotBuiltError: the table needs a feature that this release does not have.
        TerminalError: the range cannot be read, or reads more than ``max_scan_bytes``; the storage cannot be written.
        TransientError: other runs were faster again and again.
    """
    if request is None:
        return _open_next(session, cores)
    return _open_requested(session, request, cores)


def _open_next(session: PipelineSession, cores: int | None) -> OpenedBatch:
    """The next batch of a pipeline.

    Other runs may finish the batch and the next ones while this process is stopped, perhaps for an hour. So an error
    counts only if the checkpoint is still in the state that this run began with. Otherwise the run looks again.
    """
    name, checkpoint = session.pipeline.name, session.checkpoint
    for _ in range(_LOOKS):
        view = checkpoint.look()
        if session.takes_over and view.pipeline is not None:
            checkpoint.claim_for(session.writer, takes_over=True, new_id=view.checkpoint_id)
        if complete_unfinished_end(session, view) is not None:
            continue
        try:
            batch = next_batch(session, view=view, cores=cores)
            opened = _nothing_to_do(session) if batch is None else _planned(batch)
        except IcefloeError as error:
            # An error of an outdated view is no error of the pipeline: a plan that is gone, a batch that is closed.
            if checkpoint.look().position == view.position:
                # A pipeline that cannot go on needs its history until it is repaired.
                try_to_pin(session)
                raise
            logger.info("%s: looking again, another run has moved on since: %s", name, error)
            continue
        if opened is not None:
            # Only now the checkpoint has an id for certain, by which the pins are named.
            pin_pending(session)
            return opened
        logger.info("%s: looking again, another run has finished this batch", name)
    raise TransientError(
        f"other runs of {name} finished its batches faster than this one could plan them, {_LOOKS} times in a row; run "
        "again, and find out why several run at once",
        pipeline=name,
    )


def _open_requested(session: PipelineSession, request: RequestedRange, cores: int | None) -> OpenedBatch:
    """The batch of a backfill, or the next one after an abandoned one."""
    batch = requested_batch(session, request, cores=cores)
    if batch is not None and batch.is_resumed:
        # Only an open batch can have an end that somebody began.
        backfill = batch.session
        if complete_unfinished_end(backfill, backfill.checkpoint.look()) is not None:
            batch = requested_batch(session, request, cores=cores)
    if batch is None:
        return _nothing_to_do(session)
    return _planned(batch) or _delivered_before(batch)


def _nothing_to_do(session: PipelineSession) -> OpenedBatch:
    logger.info("%s: nothing to do", session.pipeline.name)
    return OpenedBatch()


def _planned(batch: NextBatch) -> OpenedBatch | None:
    """The batch with its plan; None if it was committed before, or by another run meanwhile."""
    session, number = batch.session, batch.offset.batch_number
    if batch.is_resumed and session.checkpoint.committed(number) is not None:
        return None
    try:
        if batch.is_resumed:
            # This run too must own the checkpoint and the sink.
            claim_batch(batch)
            # A plan that was there is gone a moment later if another run cleans up.
            plan = found_plan(batch)
            if plan is not None:
                return OpenedBatch(reference=session.reference(batch.offset), plan=plan, is_resumed=True)
        offset, plan = write_plan(batch)
    except IcefloeError as error:
        if session.checkpoint.committed(number) is None:
            raise
        logger.info("batch %d was finished by another run: %s", number, error)
        return None
    if plan is None:
        return None
    return OpenedBatch(reference=session.reference(offset), plan=plan, is_resumed=batch.is_resumed)


def _delivered_before(batch: NextBatch) -> OpenedBatch:
    """A backfill that is done already."""
    report = BatchReport.load(batch.session.checkpoint, batch.offset.batch_number)
    return OpenedBatch(reference=batch.session.reference(batch.offset), report=report)
