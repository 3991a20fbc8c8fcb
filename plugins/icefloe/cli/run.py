"""``icefloe run``: one batch, without Airflow."""

import os
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.open.requested_range import RequestedRange
from icefloe.batch.report import BatchReport
from icefloe.checkpoint.ownership import OWNER, owner_of
from icefloe.cli.pipeline_session import TABLE_IS_MISSING, load_named_pipeline, open_session, requested_range
from icefloe.cli.screen import Screen
from icefloe.cli.shown_values import batch_text, id_text
from icefloe.engines.phase_runner import phase_runner
from icefloe.engines.run_batch import BatchRun, run_batch
from icefloe.errors import UsageError
from icefloe.flow import Route
from icefloe.iceberg.history.history import History
from icefloe.iceberg.history.lag import lag
from icefloe.pipeline.model import Pipeline
from icefloe.units import format_bytes, id_json


class Activity:
    """Shows one thing at a time; nothing of it stays on the screen.

    Args:
        console: if it is quiet, nothing is shown.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: tuple[Progress, TaskID] | None = None

    @contextmanager
    def under_way(self, what: str) -> Iterator[None]:
        """Shows the name of the work under way and the time that it has taken."""
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        bar = Progress(*columns, console=self._console, transient=True, disable=self._console.quiet)
        with bar:
            self._shown = bar, bar.add_task(what, total=None)
            try:
                yield
            finally:
                self._shown = None

    def report(self, done: int, total: int) -> None:
        """Shows how many tasks of the work under way are done; any thread may call this."""
        if self._shown is None:
            return
        bar, task = self._shown
        if not any(isinstance(column, BarColumn) for column in bar.columns):
            bar.columns = (*bar.columns[:2], BarColumn(), MofNCompleteColumn(), *bar.columns[2:])
        bar.update(task, completed=done, total=total)


_CHANGES: Final = ("insert", "delete", "update_before", "update_after")


def run(arguments: Namespace, screen: Screen) -> int:
    """Delivers one batch; its JSON object is the last line on standard output."""
    request, pipeline = requested_range(arguments), load_named_pipeline(arguments)
    if arguments.take_over and owner_of(os.environ) is None:
        raise UsageError(f"--take-over needs an owner: set {OWNER} to the new owner of the checkpoint")
    done, waiting = _deliver(pipeline, request, screen, takes_over=arguments.take_over)
    _show(pipeline.name, done, screen)
    if waiting:
        screen.say(f"{waiting:,} snapshots are left to later batches: run again")
    screen.json(_document(done.report))
    return 0


def _deliver(
    pipeline: Pipeline, request: RequestedRange | None, screen: Screen, *, takes_over: bool
) -> tuple[BatchRun, int]:
    """Delivers a batch; returns the run, and the number of snapshots that it left to later batches.

    A missing table or branch counts as nothing to do if the pipeline has ``wait_for_table``.
    """
    try:
        with screen.under_way("opening the table"):
            session = open_session(pipeline, takes_over=takes_over)
        activity = Activity(screen.progress)
        phases = phase_runner(session.pipeline, os.environ, report_progress=activity.report)
        done = run_batch(session, request, environ=os.environ, phases=phases, observe=activity.under_way)
    except TABLE_IS_MISSING:
        if pipeline.wait_for_table:
            return BatchRun(), 0
        raise
    return done, _left(session, done.report)


def _left(session: PipelineSession, report: BatchReport | None) -> int:
    """Number of snapshots left to later batches, in the table as the run found it; 0 after a backfill."""
    if report is None or report.backfill_id is not None:
        return 0
    behind = lag(History.of(session.table), branch=session.pipeline.branch, cursor_snapshot_id=report.up_to_snapshot_id)
    return behind.snapshots or 0


def _show(name: str, done: BatchRun, screen: Screen) -> None:
    report = done.report
    if report is None:
        screen.say(f"{name}: nothing to do")
        return
    if done.was_abandoned:
        screen.say(f"{name}: batch {report.batch_number} was abandoned meanwhile: run again for the next one")
    if done.was_committed_before:
        screen.say(f"{name}: this range was delivered before, at {report.committed_at}")
    screen.facts(
        [
            ("batch", batch_text(report.batch_number, report.backfill_id)),
            ("route", report.route.value),
            ("after snapshot", id_text(report.after_snapshot_id)),
            ("up to snapshot", id_text(report.up_to_snapshot_id)),
            ("steps", f"{report.steps:,}"),
            ("read", f"{report.rows_read:,} rows, {format_bytes(report.bytes_read)}"),
            ("shuffled", f"{report.shuffled_rows:,} rows, {format_bytes(report.shuffled_bytes)}"),
            *((change, f"{report.counts[change]:,}") for change in _CHANGES),
        ]
    )
    for warning in report.warnings:
        screen.say(f"warning: {warning}")


def _document(report: BatchReport | None) -> dict[str, object]:
    if report is None:
        nothing = {"batch": None, "route": Route.NOTHING_TO_DO.value}
        return {
            **nothing, "after_snapshot_id": None, "up_to_snapshot_id": None, "steps": 0, **dict.fromkeys(_CHANGES, 0),
        }  # fmt: skip
    return {
        "batch": report.batch_number,
        "route": report.route.value,
        "after_snapshot_id": id_json(report.after_snapshot_id),
        "up_to_snapshot_id": id_json(report.up_to_snapshot_id),
        "steps": report.steps,
        **{change: report.counts[change] for change in _CHANGES},
    }
