"""Writing the plan of a batch: recorded first, then its tasks, then the plan itself."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from icefloe.batch.batch_keys import PLAN, tasks_key
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.fenced_store import FencedStore, taken_back_if_over
from icefloe.batch.map_task import put_map_tasks
from icefloe.batch.open.claim_batch import claim_batch, record_batch
from icefloe.batch.open.next_batch import NextBatch
from icefloe.batch.open.unfit_sink import refuse_unfit_sink
from icefloe.batch.phase_record import PhaseTally, record_phase
from icefloe.batch.plan.make_plan import PlannedBatch
from icefloe.batch.plan.plan_of_batch import plan_of, refuse_excessive_scan
from icefloe.batch.plan.recorded_plan import load_own_plan, refuse_other_plan
from icefloe.batch.plan_document import Plan
from icefloe.checkpoint.batch_spec import BatchSpec
from icefloe.checkpoint.records import OffsetRecord
from icefloe.documents import document_digest, dump_document
from icefloe.errors import TerminalError
from icefloe.storage.probe import probe
from icefloe.storage.store import Store
from icefloe.units import now_text

logger = logging.getLogger(__name__)


def write_plan(batch: NextBatch) -> tuple[OffsetRecord, Plan | None]:
    """Plans first, so that an unreadable table leaves no open batch; then records the batch and writes the plan.

    Returns:
        The offset that counts, and the plan. The plan is None if another run finished the batch meanwhile, or if an
        operator used its number to move the cursor.
    """
    tally = PhaseTally()
    session, checkpoint = batch.session, batch.session.checkpoint
    with _naming_the_way_out(batch):
        planned_batch = plan_of(batch)
    refuse_excessive_scan(batch, planned_batch)
    is_new = checkpoint.pipeline() is None
    if not batch.is_resumed:
        probe(session.open_storage(session.pipeline.shuffle_url), is_new=is_new)
        if is_new:
            probe(session.open_storage(session.settings.checkpoint_url))
    session.folder_of_changes.check()
    claimed = claim_batch(refuse_unfit_sink(batch))
    planned_batch = _replanned_if_other(claimed.offset.spec, batch, planned_batch)
    offset = record_batch(claimed, plan_digest=planned_batch.plan.digest)
    if offset.move is not None:
        # It has no plan. A commit of its empty range would lose what it asks for, such as to begin from scratch.
        return offset, None
    planned_batch = _replanned_if_other(offset.spec, claimed, planned_batch)
    refuse_other_plan(planned_batch, offset)
    store = FencedStore(session.folder_of(offset))

    def is_over() -> bool:
        return checkpoint.committed(offset.batch_number) is not None

    with taken_back_if_over(store, is_over):
        _write_documents(store, planned_batch, offset, session)
        tally.requests = session.requests.taken()
        record_phase(store, "plan", tally)
    if is_over():
        return offset, None
    # Read back, because the plan of another run counts if it was created first.
    plan = load_own_plan(store, offset)
    logger.info("%s: batch %d goes by %s", plan.pipeline, plan.batch_number, plan.route)
    return offset, plan


@contextmanager
def _naming_the_way_out(batch: NextBatch) -> Iterator[None]:
    """Adds the command that gives an open batch up to the sentence that says why it cannot be planned again.

    Only here it is known that the batch has no plan: one that has its plan may end well, whatever the table lost since.
    """
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


def _replanned_if_other(spec: BatchSpec, batch: NextBatch, planned_batch: PlannedBatch) -> PlannedBatch:
    """The plan of a batch for a specification; made again if another run was first and recorded another one."""
    if spec == batch.offset.spec:
        return planned_batch
    return plan_of(replace(batch, offset=replace(batch.offset, spec=spec)))


def _write_documents(store: Store, planned_batch: PlannedBatch, offset: OffsetRecord, session: PipelineSession) -> None:
    """Writes the documents of the tasks first, in a file named by its content, then the plan, which names them."""
    plan = replace(
        planned_batch.plan,
        checkpoint_id=offset.checkpoint_id,
        offset_digest=document_digest(offset),
        settings_digest=session.settings.digest,
        planned_at=now_text(),
    )

    # The plan is created last: whoever finds it finds all its tasks. The name of their file holds a digest, so the
    # tasks of another plan are never read for them.
    put_map_tasks(store, planned_batch.tasks, key=tasks_key(plan.map_task_digests))
    store.create(PLAN, dump_document(plan.sealed()))
