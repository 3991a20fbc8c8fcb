"""One batch from plan to cleanup, without Airflow."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import TypeAlias

from icefloe.batch.context.batch_folder import BatchFileMissingError, UnfinishedTasksError
from icefloe.batch.context.references import BatchFinished, BatchReference, ends_well_if_finished
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.deliver.commit_batch import try_to_clean_up
from icefloe.batch.open.next_range import RequestedRange
from icefloe.batch.plan.open_and_plan import open_and_plan
from icefloe.batch.report import BatchReport
from icefloe.batch.status import PipelineStatus, Trouble
from icefloe.engines.phase_runner import PhaseRunner
from icefloe.errors import IcefloeError, TerminalError
from icefloe.flow import FlowTask, Route
from icefloe.patience import answer_within, brief_seconds, patience_seconds

__all__ = ["BatchRun", "run_batch"]

logger = logging.getLogger(__name__)


Observer: TypeAlias = Callable[[str], AbstractContextManager[object]]
"""Called with the name of each task of the DAG; the context is entered when it starts and left when it ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRun:
    """The result of a run.

    Attributes:
        was_committed_before: the run only found the report of a backfill that was done already.
        was_abandoned: somebody gave the batch up while the run worked on it.
    """

    report: BatchReport | None = None
    was_committed_before: bool = False
    was_abandoned: bool = False


def run_batch(
    session: PipelineSession,
    request: RequestedRange | None = None,
    *,
    environ: Mapping[str, str],
    phases: PhaseRunner | None = None,
    observe: Observer = nullcontext,
) -> BatchRun:
    """Delivers the open batch, otherwise the next one; after an error the next run resumes the batch.

    Args:
        request: a range makes the run a backfill.
        phases: None: as the pipeline's ``engine`` says.
        observe: called for each task of the DAG as it starts and ends.
    """
    runner = phases or PhaseRunner.of(session.pipeline, environ)
    if request is None:
        observe = recording_trouble(session, observe)
    try:
        return _run(session, request, runner, observe)
    except (BatchFileMissingError, UnfinishedTasksError) as missing:
        # Files or parts of the open batch are gone. From its plan on, every task finds what is left and makes the rest.
        logger.warning("the batch is run once more from its plan on: %s", missing)
    return _run(session, request, runner, observe)


def _run(session: PipelineSession, request: RequestedRange | None, runner: PhaseRunner, observe: Observer) -> BatchRun:
    with observe(FlowTask.PLAN):
        runner.check_engine()
        runner.check_session(session)
        opened = open_and_plan(session, request, cores=runner.cores)
    if request is None:
        PipelineStatus.publish(session, phase="plan" if opened.plan else "cleanup")
    if opened.plan is None or opened.reference is None:
        if opened.reference is not None:
            # A backfill that was committed. Nobody else cleans up what a killed run of it left: it has no next batch.
            try_to_clean_up(opened.reference)
        return BatchRun(report=opened.report, was_committed_before=opened.is_committed)
    reference = opened.reference
    try:
        report = _run_tasks(opened.plan.route, reference, runner, observe)
    except BatchFinished as finished:
        try_to_clean_up(reference)
        was_abandoned = finished.was_abandoned
        return BatchRun(report=finished.report, was_committed_before=not was_abandoned, was_abandoned=was_abandoned)
    if request is None:
        PipelineStatus.publish(session, phase="commit", report=report, is_stale=True)
    with observe(FlowTask.CLEANUP):
        try_to_clean_up(reference)
    return BatchRun(report=report)


def _run_tasks(route: Route, reference: BatchReference, runner: PhaseRunner, observe: Observer) -> BatchReport:
    for task in route.tasks(reference.settings.last_tasks):
        if task is not FlowTask.NOTHING_TO_DO:
            with observe(task), ends_well_if_finished(reference):
                if task.phase is not None:
                    runner.run(task.phase, reference)
                else:
                    runner.run_here(task, reference)
    with observe(FlowTask.COMMIT):
        return runner.commit(reference)


def recording_trouble(session: PipelineSession, observe: Observer) -> Observer:
    """The observer, which also records a failed task. A pipeline that never began has no status."""

    @contextmanager
    def observed(task: str) -> Iterator[object]:
        try:
            with observe(task) as observing:
                yield observing
        except IcefloeError as error:
            trouble = Trouble.now(error.sentence, phase=task, is_final=isinstance(error, TerminalError))

            def record() -> None:
                if session.checkpoint.pipeline() is not None:
                    trouble.publish(session)

            with suppress(IcefloeError, TimeoutError):  # perhaps the store failed
                answer_within(brief_seconds(patience_seconds(os.environ)), record)
            raise

    return observed
