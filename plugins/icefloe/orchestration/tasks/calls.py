"""Every call into the library; results go through XCom."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from airflow.sdk.exceptions import AirflowSkipException

from icefloe.batch.context.references import BatchFinished, BatchReference, ends_well_if_finished
from icefloe.batch.context.session import PipelinePlaces, PipelineSession
from icefloe.batch.deliver.commit_batch import clean_up_finished
from icefloe.batch.open.next_batch import Work, find_work
from icefloe.batch.open.next_range import RequestedRange
from icefloe.batch.plan.open_and_plan import open_and_plan
from icefloe.batch.report import BatchReport
from icefloe.batch.status import PipelineStatus, Trouble
from icefloe.batch.upkeep.survey import survey_storage
from icefloe.checkpoint.records import Writer
from icefloe.engines.phase_runner import PhaseRunner
from icefloe.errors import IcefloeError, TerminalError, TransientError, one_line
from icefloe.flow import FlowTask, Route
from icefloe.iceberg.catalog.catalogs import UnknownTableError
from icefloe.orchestration.connections import master_of, resolve_credentials
from icefloe.orchestration.tasks.plugin_parts import current_writer
from icefloe.orchestration.tasks.task_documents import CommittedBatch, NothingToDo, PlanResult
from icefloe.orchestration.telemetry import send_batch, send_poll, send_report, send_status
from icefloe.patience import answer_within, brief_seconds, patience_seconds
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.pipeline_file import check_pipeline
from icefloe.units import id_json

__all__ = ["clean_up_batch", "commit", "plan_batch"]

logger = logging.getLogger(__name__)

_NOTHING: Final = Work(has_open_batch=False, has_new_snapshot=False, head_snapshot_id=None)


def look(pipeline: Pipeline) -> Work:
    """Looks for work and counts the look."""
    try:
        work = work_of(pipeline)
    except TransientError:
        send_poll(pipeline.name, pipeline.table, outcome="failed")
        raise
    send_poll(pipeline.name, pipeline.table, outcome="due" if work.is_due else "empty")
    return work


def work_of(pipeline: Pipeline) -> Work:
    """The work that is there. A missing table or branch is no work with ``wait_for_table``."""
    with absent_table_is_transient(pipeline):
        try:
            return find_work(_session(pipeline))
        except UnknownTableError:
            if pipeline.wait_for_table:
                return _NOTHING
            raise


def plan_batch(
    pipeline: Pipeline, request: RequestedRange | None, *, dag_id: str | None = None
) -> PlanResult | NothingToDo:
    """Opens or resumes a batch and writes its plan; a delivered backfill has nothing to commit."""
    with absent_table_is_transient(pipeline):
        try:
            session = _session(pipeline, current_writer())
            phases = phases_of(pipeline)
            if phases.advice is not None:
                logger.warning("%s: %s", pipeline.name, phases.advice)
            phases.check_session(session)
            opened = open_and_plan(session, request, cores=phases.cores)
        except UnknownTableError:
            if not pipeline.wait_for_table:
                raise
            return _nothing_to_do(pipeline, "its table or branch is not there yet")
    plan = opened.plan
    name = pipeline.name if request is None else f"{pipeline.name}__backfill"
    if request is None:
        # If there is nothing to do, no batch is open, and trouble of any task of an earlier run is over.
        send_status(PipelineStatus.publish(session, phase="cleanup" if plan is None else "plan", dag_id=dag_id))
    if plan is None or opened.reference is None:
        why = "this range was delivered before" if opened.is_committed else "nothing new was committed to the table"
        return _nothing_to_do(pipeline, why, was_delivered_before=opened.is_committed)
    send_batch(name, pipeline.table, is_resumed=opened.is_resumed, map_tasks=plan.num_map_tasks)
    return {
        "route": plan.route.value,
        "plan_uri": opened.reference.plan_url,
        "batch_number": plan.batch_number,
        "backfill_id": plan.backfill_id,
        "after_snapshot_id": id_json(plan.spec.after_snapshot_id),
        "up_to_snapshot_id": id_json(plan.spec.up_to_snapshot_id),
        "steps": len(plan.spec.steps),
        "map_tasks": plan.num_map_tasks,
        "num_partitions": plan.num_partitions,
        "checkpoint_uri": opened.reference.settings.checkpoint_url,
        "sink_path": opened.reference.settings.changes_folder.path,
    }


def _nothing_to_do(pipeline: Pipeline, why: str, *, was_delivered_before: bool = False) -> NothingToDo:
    logger.info("%s has nothing to do: %s", pipeline.name, why)
    return {
        "route": Route.NOTHING_TO_DO.value,
        "plan_uri": None,
        "was_delivered_before": was_delivered_before,
        "checkpoint_uri": pipeline.expanded(os.environ).checkpoint_url,
    }


def skip_other_route(task: FlowTask, plan_result: PlanResult) -> None:
    """Skips a task off its batch's route even if `route` was marked as success."""
    # It would replace the records of the tasks on the route.
    route = Route(plan_result["route"])
    if task not in route.tasks((FlowTask.CHECK, FlowTask.DELIVER)):
        logger.info("%s has nothing to do: its batch takes the route %s", task, route)
        raise AirflowSkipException(f"the batch takes the route {route}")


def phases_of(pipeline: Pipeline) -> PhaseRunner:
    """Runs phases in this process, or on the Spark that the pipeline's connection names."""
    expanded = pipeline.expanded(os.environ)
    master = None if expanded.engine == "local" else master_of(expanded)
    return PhaseRunner.of(expanded, os.environ, master=master)


def coalesce_batch(pipeline: Pipeline, plan_result: PlanResult) -> dict[str, object]:
    """Plans the reduce ranges, or says only that another run has committed the batch."""
    return _run_here(FlowTask.COALESCE, pipeline, plan_result)


def check_batch(pipeline: Pipeline, plan_result: PlanResult) -> dict[str, object]:
    """Checks the batch; returns the number of wrong rows by check; None: it did not end."""
    return _run_here(FlowTask.CHECK, pipeline, plan_result)


def _run_here(task: FlowTask, pipeline: Pipeline, plan_result: PlanResult) -> dict[str, object]:
    if not plan_result["plan_uri"]:
        raise AirflowSkipException("no batch")
    skip_other_route(task, plan_result)
    reference = reference_of(pipeline, plan_result)
    try:
        # No Spark application is started from here, so that its connection need not be there.
        with ends_well_if_finished(reference):
            return PhaseRunner(pipeline=pipeline.expanded(os.environ)).run_here(task, reference)
    except BatchFinished:
        return {"finished_by_another_run": True}


def commit(pipeline: Pipeline, plan_result: PlanResult) -> tuple[CommittedBatch, str | None]:
    """Commits the batch that plan passed on, or takes the report of the run that did.

    Returns:
        The batch; and the time of an earlier commit, None if this try committed it.
    """
    committed_before_at: str | None = None
    writer = current_writer()
    reference = reference_of(pipeline, plan_result, writer)
    expanded = pipeline.expanded(os.environ)
    try:
        # No Spark application is started from here, so that its connection need not be there.
        report = PhaseRunner(pipeline=expanded).commit(reference)
        send_report(report)
    except BatchFinished as finished:
        report = finished.report
        committed_before_at = report.committed_at
    if report.backfill_id is None:
        _publish_commit(pipeline, report, writer)
    batch: CommittedBatch = {
        "batch_number": report.batch.batch_number,
        "backfill_id": report.backfill_id,
        "route": report.route.value,
        "after_snapshot_id": id_json(report.batch.after_snapshot_id),
        "up_to_snapshot_id": id_json(report.batch.up_to_snapshot_id),
        "steps": report.batch.steps,
        "counts": dict(report.batch.counts),
        "checkpoint_uri": reference.checkpoint.url,
        "sink": "files" if report.delivery is None else report.delivery.sink,
        # Tasks write what delivery gives another order or form to a place that the next batch clears.
        "sink_path": (report.delivery and expanded.sink.path) or plan_result["sink_path"],
        "delivery": None if report.delivery is None else asdict(report.delivery),
        "changed_partitions": None if report.batch.changed_partitions is None else [*report.batch.changed_partitions],
    }
    return batch, committed_before_at


def clean_up_batch(pipeline: Pipeline, plan_result: PlanResult) -> None:
    """Deletes files that phases of a committed batch passed on, if they remain."""
    clean_up_finished(reference_of(pipeline, plan_result))


_SWEEP_SECONDS: Final = 7 * 86_400.0
"""The default of ``icefloe sweep --older-than``."""


def sweep_pipeline(path: Path) -> int:
    """Deletes the files that dead runs of a pipeline left, as `icefloe sweep` does; returns their number."""
    places = _places(_checked(path))
    survey = survey_storage(
        places.pipeline.storage,
        older_than_seconds=_SWEEP_SECONDS,
        credentials=places.credentials,
        environ=os.environ,
        pipeline=places.pipeline.name,
    )
    for each in survey.leftovers:
        logger.info("deleting %d files, %d bytes, at %s: %s", len(each.files), each.size_bytes, each.url, each.reason)
    for note in survey.notes:
        logger.info("%s", note)
    deleted, failures = survey.delete()
    logger.info("%d files were deleted", deleted)
    survey.raise_problems(failures)
    return deleted


def purge_pipeline(path: Path) -> int:
    """Removes the marks of deleted rows that are older than the sink's ``purge_after``; returns their number."""
    pipeline = _checked(path)
    # Before catalog, cluster and credentials are asked, which may be down.
    if pipeline.sink.options.get("purge_after") is None:
        raise AirflowSkipException("the sink of this pipeline has no purge_after")
    with _places(pipeline, writer=current_writer()).marked_sink() as sink:
        if sink is None or sink.purge_after is None:
            raise AirflowSkipException("the sink of this pipeline has no marks of deleted rows yet")
        before = datetime.now(UTC) - timedelta(seconds=sink.purge_after)
        purged = sink.purge(before=before)
    logger.info("removed %d marks of rows that were deleted before %s", purged, before)
    return purged


def _checked(path: Path) -> Pipeline:
    pipeline = Pipeline.load(path)
    check_pipeline(pipeline)
    return pipeline


def record_trouble(pipeline: Pipeline, sentence: str, *, phase: str, is_final: bool, dag_id: str | None) -> None:
    """Records a failed task in the pipeline's status, if the checkpoint is writable."""
    trouble = Trouble.now(sentence, phase=phase, is_final=is_final)
    _publish_briefly(pipeline, partial(trouble.publish, dag_id=dag_id))


def end_trouble(pipeline: Pipeline, phase: str) -> None:
    """Takes a task's trouble from the status: it is over, and the task goes on."""
    _publish_briefly(pipeline, partial(Trouble.end, phase=phase))


def _publish_briefly(pipeline: Pipeline, publish: Callable[[PipelinePlaces], None]) -> None:
    def call() -> None:
        publish(_places(pipeline, writer=current_writer()))

    try:
        # Perhaps the store failed, or Airflow's API server, which knows credentials and owner.
        answer_within(brief_seconds(patience_seconds(os.environ)), call)
    except Exception as error:  # noqa: BLE001 - a task that failed has failed with a better reason
        logger.warning("the status of %s cannot be written: %s", pipeline.name, one_line(error))


def _publish_commit(pipeline: Pipeline, report: BatchReport, writer: Writer) -> None:
    """Publishes the status. The table is opened again, because commit works without a catalog."""
    try:
        send_status(PipelineStatus.publish(_session(pipeline, writer), phase="commit", report=report))
    except Exception as error:  # noqa: BLE001 - the batch is committed, whatever the catalog answers now
        logger.warning("the status of %s waits for the next plan: %s", pipeline.name, one_line(error))


def _session(pipeline: Pipeline, writer: Writer | None = None) -> PipelineSession:
    expanded = pipeline.expanded(os.environ)
    return PipelineSession.open(expanded, credentials=resolve_credentials(expanded), environ=os.environ, writer=writer)


def _places(pipeline: Pipeline, *, backfill_id: str | None = None, writer: Writer | None = None) -> PipelinePlaces:
    expanded = pipeline.expanded(os.environ)
    credentials = resolve_credentials(expanded)
    return PipelinePlaces(
        pipeline=expanded, credentials=credentials, backfill_id=backfill_id, writer=writer or Writer()
    )


def reference_of(pipeline: Pipeline, plan_result: PlanResult, writer: Writer | None = None) -> BatchReference:
    """The batch that plan passed on, with the credentials of its tasks."""
    places = _places(pipeline, backfill_id=plan_result.get("backfill_id"), writer=writer)
    return BatchReference(plan_url=plan_result["plan_uri"], credentials=places.credentials, settings=places.settings)


_LONGEST: Final = timedelta(minutes=15)
"""Three runs that fail by themselves pause a DAG, so a restart of a catalog or of a proxy must be shorter than one."""


@contextmanager
def absent_table_is_transient(pipeline: Pipeline) -> Iterator[None]:
    """Makes an UnknownTableError transient if the checkpoint has a batch of this table."""
    # A proxy under maintenance, or a catalog whose database is being restored, answers 404 to everything.
    try:
        yield
    except UnknownTableError as error:
        # Where the table answers, a branch that it lacks is gone.
        if error.branch is not None or not _has_batch(pipeline):
            raise
        raise TransientError(
            f"{error.sentence}; {pipeline.name} has read this table, so it is looked for again: a catalog or proxy "
            "under maintenance may answer so. If the table is gone or has another name, pause the DAG",
            table=pipeline.table,
        ) from error


def absent_since(error: TransientError, since: datetime | None) -> datetime | None:
    """Time since which a trigger misses a table; None: `error` is another. `TerminalError` after too long a time."""
    if not isinstance(error.__cause__, UnknownTableError):
        return None
    now = datetime.now(UTC)
    if now - (since or now) >= _LONGEST:
        raise TerminalError(
            f"table {error.table} has been missing from its catalog for {_LONGEST // timedelta(minutes=1)} minutes: "
            f"bring it back, or correct `table` of the pipeline ({error.sentence})",
            table=error.table,
        )
    return since or now


def _has_batch(pipeline: Pipeline) -> bool:
    try:
        view = _places(pipeline).checkpoint.look()
    except IcefloeError as error:
        logger.warning("nobody knows if %s has read its table before: %s", pipeline.name, error.sentence)
        return False
    has_any = view.cursor is not None or view.opened is not None
    return has_any and view.pipeline is not None and view.pipeline.table == pipeline.table
