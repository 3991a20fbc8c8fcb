"""Opens a batch and writes its plan; a repetition finds both."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from icefloe.batch.context.end_batch import complete_unfinished_end
from icefloe.batch.context.references import BatchReference
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.open.claim_batch import claim_batch, record_batch
from icefloe.batch.open.next_batch import NextBatch, next_batch, requested_batch
from icefloe.batch.open.next_range import RequestedRange
from icefloe.batch.open.pin import pin_pending, try_to_pin
from icefloe.batch.open.recorded_pipeline import look_at_checkpoint
from icefloe.batch.phase_record import PhaseTally
from icefloe.batch.plan.make_plan import PlannedBatch, load_own_plan, plan_of, refuse_excessive_scan, refuse_other_plan
from icefloe.batch.plan_document import PLAN, Plan, put_map_tasks, tasks_key
from icefloe.batch.report import BatchReport
from icefloe.checkpoint.records import OffsetRecord
from icefloe.documents import document_digest, dump_document
from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.storage.location import probe
from icefloe.units import now_text

__all__ = ["open_and_plan"]

logger = logging.getLogger(__name__)

_LOOKS: Final = 5


def write_plan(batch: NextBatch) -> tuple[OffsetRecord, Plan | None]:
    """Plans first, so that an unreadable table leaves no open batch; an open one may have its plan."""
    tally = PhaseTally.of("plan")
    session, checkpoint = batch.session, batch.session.checkpoint
    if batch.is_resumed:
        # This run too must own the checkpoint and the sink.
        claim_batch(batch)
        folder = session.reference(batch.offset).folder
        # A plan that was there is gone a moment later if another run cleans up.
        if folder.size(PLAN) is not None:
            return batch.offset, load_own_plan(folder, batch.offset)
    with _naming_the_way_out(batch):
        planned_batch = plan_of(batch)
    refuse_excessive_scan(batch, planned_batch)
    is_new = checkpoint.pipeline() is None
    if not batch.is_resumed:
        probe(session.open_storage(session.pipeline.shuffle_url), is_new=is_new)
        if is_new:
            probe(session.open_storage(session.settings.checkpoint_url))
    session.folder_of_changes.check()
    claimed = claim_batch(batch)
    planned_batch = _replanned_if_other(claimed.offset, batch, planned_batch)
    offset = record_batch(claimed, plan_digest=planned_batch.plan.digest)
    planned_batch = _replanned_if_other(offset, claimed, planned_batch)
    refuse_other_plan(planned_batch, offset, session.pipeline)
    store = replace(session.reference(offset), requests=session.requests).fenced_folder()

    def is_over() -> bool:
        return checkpoint.committed(offset.batch_number) is not None

    with store.taken_back_if_over(is_over):
        # The plan is created last: whoever finds it finds all its tasks. The name of their file holds a digest, so the
        # tasks of another plan are never read for them.
        put_map_tasks(store, planned_batch.tasks, key=tasks_key(planned_batch.plan.map_task_digests))
        plan = replace(
            planned_batch.plan,
            checkpoint_id=offset.checkpoint_id,
            offset_digest=document_digest(offset),
            settings_digest=session.settings.digest,
            planned_at=now_text(),
        )
        store.create(PLAN, dump_document(plan.sealed()))
        tally.record.requests = session.requests.taken()
        tally.store = store
        tally.ended()
    if is_over():
        return offset, None
    # Read back, because the plan of another run counts if it was created first.
    plan = load_own_plan(store, offset)
    logger.info("%s: batch %d goes by %s", plan.pipeline, plan.batch_number, plan.route)
    return offset, plan


@contextmanager
def _naming_the_way_out(batch: NextBatch) -> Iterator[None]:
    """Adds how to give the batch up. A batch that has its plan may end well, whatever the table lost."""
    try:
        yield
    except TerminalError as error:
        if not batch.is_resumed:
            raise
        number, backfill_id = batch.offset.batch_number, batch.session.backfill_id
        which = "" if backfill_id is None else f" --backfill {backfill_id}"
        command = f"icefloe abandon {batch.session.pipeline.name}{which}"
        raise error.restated(
            f"{error.sentence}; batch {number} is open and has no plan: if that cannot be mended, `{command}` gives "
            "the batch up, and the next run plans by the table as it then is",
            batch_number=number,
        ) from error


def _replanned_if_other(counts: OffsetRecord, batch: NextBatch, planned_batch: PlannedBatch) -> PlannedBatch:
    """Plans again if another run was first with another specification."""
    return planned_batch if counts.spec == batch.offset.spec else plan_of(replace(batch, offset=counts))


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedBatch:
    """An opened batch with its plan, as the later tasks of a run receive it."""

    reference: BatchReference | None = None  # None: there is nothing to do
    plan: Plan | None = None  # None: nothing to do, or the batch was committed before
    report: BatchReport | None = None  # of a backfill that is already done
    is_resumed: bool = field(default=False, compare=False)

    @property
    def is_committed(self) -> bool:
        """True if nothing is left to do for this batch."""
        return self.report is not None


def open_and_plan(session: PipelineSession, request: RequestedRange | None = None, *, cores: int = 1) -> OpenedBatch:
    """Opens or resumes a batch and writes its plan. ``cores`` is the number of tasks that run at once."""
    if request is None:
        return _open_next(session, cores)
    return _open_requested(session, request, cores)


def _open_next(session: PipelineSession, cores: int) -> OpenedBatch:
    """After an error it looks again if another run moved the checkpoint while this one was stopped."""
    name, checkpoint = session.pipeline.name, session.checkpoint
    for _ in range(_LOOKS):
        view = look_at_checkpoint(session)
        if session.takes_over and view.pipeline is not None:
            checkpoint.claim_for(session.writer, takes_over=True, new_id=view.checkpoint_id)
        if complete_unfinished_end(session, view) is not None:
            continue
        try:
            batch = next_batch(session, view, cores=cores)
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


def _open_requested(session: PipelineSession, request: RequestedRange, cores: int) -> OpenedBatch:
    """The batch of a backfill, or the next one after an abandoned one."""
    batch = requested_batch(session, request, cores=cores)
    if batch is not None and batch.is_resumed:
        # Only an open batch can have an end that somebody began.
        backfill = batch.session
        if complete_unfinished_end(backfill, backfill.checkpoint.look()) is not None:
            batch = requested_batch(session, request, cores=cores)
    if batch is None:
        return _nothing_to_do(session)
    opened = _planned(batch)
    if opened is not None:
        return opened
    session = batch.session
    report = BatchReport.load(session.checkpoint, batch.offset.batch_number, backfill_id=session.backfill_id)
    return OpenedBatch(reference=session.reference(batch.offset), report=report)


def _nothing_to_do(session: PipelineSession) -> OpenedBatch:
    logger.info("%s: nothing to do", session.pipeline.name)
    return OpenedBatch()


def _planned(batch: NextBatch) -> OpenedBatch | None:
    """None if the batch is committed meanwhile."""
    session, number = batch.session, batch.offset.batch_number
    if batch.is_resumed and session.checkpoint.committed(number) is not None:
        return None
    try:
        offset, plan = write_plan(batch)
    except IcefloeError as error:
        if session.checkpoint.committed(number) is None:
            raise
        logger.info("batch %d was finished by another run: %s", number, error)
        return None
    if plan is None:
        return None
    return OpenedBatch(reference=session.reference(offset), plan=plan, is_resumed=batch.is_resumed)
