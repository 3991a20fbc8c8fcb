"""Preparing a batch: it is opened and its plan is written; repeating it finds both."""

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final

from icefloe.batch.batch_bounds import refuse_large_scan
from icefloe.batch.context import load_plan
from icefloe.batch.cores import available_cores
from icefloe.batch.document import Plan, Route
from icefloe.batch.draft import DraftPlan, Places, draft_plan
from icefloe.batch.layout import PLAN, plan_url, task_key
from icefloe.batch.open_batch import NextBatch, next_batch, record_batch
from icefloe.batch.phase_record import PhaseTally, record_phase
from icefloe.batch.range_request import RangeRequest
from icefloe.batch.report import BatchReport, load_report
from icefloe.batch.session import PipelineSession
from icefloe.documents import dump_document
from icefloe.pipeline.configuration import with_tuning
from icefloe.pipeline.lines import with_lines
from icefloe.pipeline.not_built import refuse_unbuilt
from icefloe.storage.probe import probe
from icefloe.storage.store import Store

__all__ = ["Prepared", "draft", "prepare", "refuse_excessive_scan", "refuse_unfit"]

logger = logging.getLogger(__name__)

_REQUESTS_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What the later tasks of a run are told.

    Attributes:
        plan_url: of the batch; None when there is nothing to do.
        plan: likewise.
        report: of a batch that was committed before; only a backfill that was done already has one.
        is_resumed: the batch was open before.
    """

    plan_url: str | None = None
    plan: Plan | None = None
    report: BatchReport | None = None
    is_resumed: bool = field(default=False, compare=False)

    @property
    def is_committed(self) -> bool:
        """Whether there is nothing left to do of this batch."""
        return self.report is not None

    @property
    def route(self) -> Route:
        """The way through the DAG."""
        return Route.NOTHING_TO_DO if self.plan is None else self.plan.route


def prepare(session: PipelineSession, request: RangeRequest | None = None, *, cores: int | None = None) -> Prepared:
    """Opens or resumes a batch and writes its plan.

    Args:
        session: of the pipeline.
        request: a range makes the run a backfill.
        cores: of the Spark master; None: as its configuration or this machine says.

    Raises:
        NotBuiltError: the pipeline or the table needs what this release does not have.
        TerminalError: the range cannot be read, or reads more than ``max_scan_bytes``; the storage cannot be written.
    """
    refuse_unbuilt(session.pipeline)
    batch = next_batch(session, request)
    if batch is None:
        logger.info("%s: nothing to do", session.pipeline.name)
        return Prepared()
    number, checkpoint = batch.offset.batch_number, batch.session.checkpoint
    url = batch.session.batch_url(number)
    if batch.is_resumed and checkpoint.committed(number) is not None:
        return Prepared(plan_url=plan_url(url), report=load_report(checkpoint, number))
    store = batch.session.open_storage(url)
    is_planned = batch.is_resumed and store.size(PLAN) is not None
    plan = load_plan(store) if is_planned else _write(batch, store, cores=cores)
    return Prepared(plan_url=plan_url(url), plan=plan, is_resumed=batch.is_resumed)


def _write(batch: NextBatch, store: Store, *, cores: int | None) -> Plan:
    """Plans first, so that a table that cannot be read leaves no open batch behind; then records, then writes."""
    tally = PhaseTally()
    drafted = draft(batch, cores=cores)
    refuse_excessive_scan(batch, drafted)
    probe(store)
    if batch.session.checkpoint.pipeline() is None:
        probe(batch.session.open_storage(batch.session.checkpoint_url))
    batch.session.sink.check()
    _refuse_occupied_sink(batch)
    recorded = record_batch(batch)
    if recorded != batch.offset:
        drafted = draft(replace(batch, offset=recorded, is_resumed=True), cores=cores)
    with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
        list(pool.map(lambda task: store.put(task_key(task.map_id), dump_document(task)), drafted.tasks))
    store.create(PLAN, dump_document(drafted.plan))
    tally.requests = batch.session.requests.taken()
    record_phase(store, "plan", tally)
    plan = load_plan(store)
    logger.info("%s: batch %d goes by %s", plan.pipeline, plan.batch_number, plan.route)
    return plan


def refuse_unfit(batch: NextBatch) -> None:
    """Stops where ``prepare`` would for what only the batch shows; plans it where ``max_scan_bytes`` asks for it.

    Raises:
        TerminalError: its sink is occupied, or it would read too much.
    """
    _refuse_occupied_sink(batch)
    if batch.session.pipeline.max_scan_bytes is not None and not batch.is_resumed:
        refuse_excessive_scan(batch, draft(batch))


def refuse_excessive_scan(batch: NextBatch, drafted: DraftPlan) -> None:
    """Stops a batch that is not open yet where it would read more than ``max_scan_bytes``; once open, it stays open.

    Raises:
        ScanTooLargeError: with both numbers.
    """
    if not batch.is_resumed:
        pipeline, plan = batch.session.pipeline, drafted.plan
        what = f"batch {plan.batch_number}" if plan.backfill_id is None else f"backfill {plan.backfill_id}"
        refuse_large_scan(
            sum(plan.map_task_bytes),
            max_scan_bytes=pipeline.max_scan_bytes,
            batch=f"{what} of {pipeline.name}",
        )


def _refuse_occupied_sink(batch: NextBatch) -> None:
    """Stops a batch that is not open yet where its sink holds another one of its number; once open, it stays open.

    Raises:
        TerminalError: the sink's path belongs to another pipeline, or to an earlier life of this one.
    """
    offset, session = batch.offset, batch.session
    if batch.is_resumed or session.checkpoint.committed(offset.batch_number) is not None:
        return
    session.sink.refuse_other_batch(
        pipeline=session.pipeline.name,
        table=session.pipeline.table,
        batch_number=offset.batch_number,
        after_snapshot_id=offset.after_snapshot_id,
        up_to_snapshot_id=offset.up_to_snapshot_id,
    )


def draft(batch: NextBatch, *, cores: int | None = None) -> DraftPlan:
    """The plan of a pipeline's batch, by the tuning that was recorded when it was opened."""
    offset, session = batch.offset, batch.session
    pipeline = with_tuning(session.pipeline, offset.tuning_configuration)
    with with_lines(pipeline):
        return draft_plan(
            session.table,
            replace(offset, warnings=(*offset.warnings, *batch.warnings)),
            places=Places(
                pipeline=pipeline.name,
                backfill_id=session.backfill_id,
                table=pipeline.table,
                catalog=pipeline.file.data["catalog"],
                allowed_locations=tuple(pipeline.file.data.get("allowed_locations") or ()),
                checkpoint_url=session.checkpoint_url,
                batch_url=session.batch_url(offset.batch_number),
                sink={**session.sink_settings, "target_file_bytes": pipeline.sink.target_file_bytes},
            ),
            shuffle=pipeline.shuffle,
            cores=cores or available_cores(pipeline),
            on_summary_mismatch=pipeline.on_summary_mismatch,
            columns=pipeline.columns,
            filter_text=pipeline.filter,
            changes=pipeline.changes,
        )
