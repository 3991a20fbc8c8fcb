"""Preparing a batch: it is opened and its plan is written; repeating it finds both."""

import logging
from dataclasses import dataclass, field, replace
from typing import Final

from icefloe.batch.batch_keys import PLAN, task_key
from icefloe.batch.commit.report import BatchReport, load_report
from icefloe.batch.context.batch_folder import load_plan
from icefloe.batch.context.references import BatchReference
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.fenced_store import FencedStore, taken_back_if_over
from icefloe.batch.open.occupied_sink import refuse_occupied_sink
from icefloe.batch.open.open_batch import NextBatch, next_batch, record_batch
from icefloe.batch.open.range_request import RangeRequest
from icefloe.batch.phase_record import PhaseTally, record_phase
from icefloe.batch.plan.make_plan import PlannedBatch
from icefloe.batch.plan.plan_of_batch import plan_of, refuse_excessive_scan
from icefloe.batch.plan.recorded_plan import refuse_foreign_plan, refuse_other_plan
from icefloe.batch.plan_document import MapTask, Plan
from icefloe.checkpoint.batch_spec import BatchSpec
from icefloe.checkpoint.records import OffsetRecord
from icefloe.checkpoint.view import CheckpointView
from icefloe.documents import document_digest, dump_document
from icefloe.errors import IcefloeError, TransientError
from icefloe.flow import Route
from icefloe.pipeline.later_keys import refuse_unbuilt
from icefloe.storage.parallel import map_parallel
from icefloe.storage.probe import probe
from icefloe.storage.store import Store

__all__ = ["Prepared", "open_and_plan"]

logger = logging.getLogger(__name__)

_LOOKS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A prepared batch, as the later tasks of a run receive it.

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
    session: PipelineSession, request: RangeRequest | None = None, *, cores: int | None = None
) -> Prepared:
    """Opens or resumes a batch and writes its plan.

    Other runs may finish the batch and the next ones while this process is stopped, perhaps for an hour. So an error
    counts only if the checkpoint is still in the state that this run began with. Otherwise the run looks again.

    Args:
        session: session of the pipeline.
        request: a range makes the run a backfill.
        cores: cores of the Spark master; None: as its configuration or this machine says.

    Raises:
        NotBuiltError: the pipeline or the table needs a feature that this release does not have.
        TerminalError: the range cannot be read, or reads more than ``max_scan_bytes``; the storage cannot be written.
        TransientError: other runs were faster again and again.
    """
    refuse_unbuilt(session.pipeline)
    for _ in range(_LOOKS):
        view = None if request is not None else session.checkpoint.look()
        if session.takes_over and view is not None and view.pipeline is not None:
            session.checkpoint.claim(session.writer, takes_over=True, new_id=view.checkpoint_id)
        try:
            prepared = _prepare_once(session, request, view=view, cores=cores)
        except IcefloeError as error:
            # An error of an outdated view is no error of the pipeline: a plan that is gone, a batch that is closed.
            if view is None or session.checkpoint.look().position == view.position:
                raise
            logger.info("%s: looking again, another run has moved on since: %s", session.pipeline.name, error)
            continue
        if prepared is not None:
            return prepared
        logger.info("%s: looking again, another run has finished this batch", session.pipeline.name)
    raise TransientError(
        f"other runs of {session.pipeline.name} finished its batches faster than this one could plan them, {_LOOKS} "
        "times in a row; run again, and find out why several run at once",
        pipeline=session.pipeline.name,
    )


def _prepare_once(
    session: PipelineSession, request: RangeRequest | None, *, view: CheckpointView | None, cores: int | None
) -> Prepared | None:
    """One try; None if another run committed the batch meanwhile, so that there may be a next batch."""
    batch = next_batch(session, request, view=view, cores=cores)
    if batch is None:
        logger.info("%s: nothing to do", session.pipeline.name)
        return Prepared()
    number, checkpoint = batch.offset.batch_number, batch.session.checkpoint
    if batch.is_resumed and checkpoint.committed(number) is not None:
        return _delivered_before(batch) if request is not None else None
    if batch.is_resumed:
        # Records nothing again, but makes sure that this run too owns the checkpoint and the sink.
        record_batch(batch)
        plan = _found_plan(batch)
        if plan is not None:
            return Prepared(reference=batch.session.reference(batch.offset), plan=plan, is_resumed=True)
    try:
        offset, plan = _write(batch)
    except IcefloeError as error:
        if checkpoint.committed(number) is None:
            raise
        logger.info("batch %d was finished by another run: %s", number, error)
        return _delivered_before(batch) if request is not None else None
    if plan is not None:
        return Prepared(reference=batch.session.reference(offset), plan=plan, is_resumed=batch.is_resumed)
    return _delivered_before(batch) if request is not None else None


def _delivered_before(batch: NextBatch) -> Prepared:
    report = load_report(batch.session.checkpoint, batch.offset.batch_number)
    return Prepared(reference=batch.session.reference(batch.offset), report=report)


def _found_plan(batch: NextBatch) -> Plan | None:
    """The plan of an open batch; None if it is not written yet, or was lost.

    Raises:
        ForeignPlanError: the folder holds the plan of another batch.
    """
    store = batch.session.open_storage(batch.session.batch_url(batch.offset))
    if store.size(PLAN) is None:
        return None
    plan = load_plan(store)
    refuse_foreign_plan(plan, batch.offset, url=store.url, sink_path=batch.session.sink_settings["path"])
    return plan


def _write(batch: NextBatch) -> tuple[OffsetRecord, Plan | None]:
    """Plans first, so that an unreadable table leaves no open batch; then records the batch and writes the plan.

    Returns:
        The offset that counts, and the plan. The plan is None if another run finished the batch meanwhile.
    """
    tally, session, checkpoint = PhaseTally(), batch.session, batch.session.checkpoint
    planned_batch = plan_of(batch)
    refuse_excessive_scan(batch, planned_batch)
    if not batch.is_resumed:
        probe(session.open_storage(session.pipeline.shuffle_url))
        if checkpoint.pipeline() is None:
            probe(session.open_storage(session.checkpoint_url))
    session.sink.check()
    refuse_occupied_sink(batch)

    def planned_for(spec: BatchSpec) -> PlannedBatch:
        return (
            planned_batch
            if spec == batch.offset.spec
            else plan_of(replace(batch, offset=replace(batch.offset, spec=spec)))
        )

    offset = record_batch(batch, digest_of=lambda spec: planned_for(spec).plan.digest)
    planned_batch = planned_for(offset.spec)
    refuse_other_plan(planned_batch.plan, offset)
    store = FencedStore(session.open_storage(session.batch_url(offset)))

    def is_over() -> bool:
        return checkpoint.committed(offset.batch_number) is not None

    with taken_back_if_over(store, is_over):
        _write_documents(store, planned_batch, offset, session)
        tally.requests = session.requests.taken()
        record_phase(store, "plan", tally)
    if is_over():
        return offset, None
    # Read back, because the plan of another run counts if it was created first.
    plan = load_plan(store)
    refuse_foreign_plan(plan, offset, url=store.url, sink_path=session.sink_settings["path"])
    logger.info("%s: batch %d goes by %s", plan.pipeline, plan.batch_number, plan.route)
    return offset, plan


def _write_documents(store: Store, planned_batch: PlannedBatch, offset: OffsetRecord, session: PipelineSession) -> None:
    """Writes the documents of the tasks first, each named by its content, then the plan, which names them."""
    plan = replace(
        planned_batch.plan,
        checkpoint_id=offset.checkpoint_id,
        offset_digest=document_digest(offset),
        settings_digest=session.settings.digest,
    )

    def write(task: MapTask) -> None:
        store.put(task_key(task.map_id, plan.map_task_digests[task.map_id]), dump_document(task))

    # The plan is created last: whoever finds it finds all its tasks. Their names hold digests, so the tasks of another
    # plan are never read for them.
    map_parallel(write, planned_batch.tasks)
    store.create(PLAN, dump_document(plan))
