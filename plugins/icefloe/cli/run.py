"""``run``: one batch, without Airflow; ``plan``: the batch that a run would read and write."""

import os
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.open.identity_policy import identity_text
from icefloe.batch.open.requested_range import RequestedRange
from icefloe.batch.plan.batch_preview import BatchPreview, preview_batch
from icefloe.batch.report import BatchReport
from icefloe.checkpoint.ownership import OWNER, owner_of
from icefloe.cli.pipeline_session import TABLE_IS_MISSING, load_named_pipeline, open_session, requested_range
from icefloe.cli.screen import Screen, batch_text, id_text
from icefloe.engines.phase_runner import phase_runner
from icefloe.engines.run_batch import BatchRun, run_batch
from icefloe.errors import UsageError
from icefloe.flow import Route
from icefloe.iceberg.history.history import History
from icefloe.iceberg.history.lag import lag
from icefloe.pipeline.model import Pipeline
from icefloe.units import format_bytes, id_json, time_of_ms


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


def run(arguments: Namespace, screen: Screen) -> None:
    """Delivers one batch; its JSON object is the last line on standard output."""
    request, pipeline = requested_range(arguments), load_named_pipeline(arguments)
    if arguments.take_over and owner_of(os.environ) is None:
        raise UsageError(f"--take-over needs an owner: set {OWNER} to the new owner of the checkpoint")
    done, waiting = _deliver(pipeline, request, screen, takes_over=arguments.take_over)
    _show(pipeline.name, done, screen)
    if waiting:
        screen.say(f"{waiting:,} snapshots are left to later batches: run again")
    screen.json(_document(done.report))


def _deliver(
    pipeline: Pipeline, request: RequestedRange | None, screen: Screen, *, takes_over: bool
) -> tuple[BatchRun, int]:
    """Delivers a batch; returns the run, and the number of snapshots that it left to later batches."""
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


def plan(arguments: Namespace, screen: Screen) -> None:
    """Shows the batch that ``run`` would deliver; writes nothing anywhere."""
    request, pipeline = requested_range(arguments), load_named_pipeline(arguments)
    with screen.under_way("planning"):
        preview = _preview(pipeline, request)
    if isinstance(preview, BatchPreview):
        _plan_show(pipeline.name, preview, screen)
    else:
        screen.say(f"{pipeline.name}: {preview}")
    screen.answer(_plan_document(preview) if isinstance(preview, BatchPreview) else _nothing())


def _preview(pipeline: Pipeline, request: RequestedRange | None) -> BatchPreview | str:
    """The batch, or the reason why a run would deliver nothing."""
    try:
        session = open_session(pipeline)
        return preview_batch(session, request, cores=phase_runner(session.pipeline, os.environ).cores)
    except TABLE_IS_MISSING:
        if pipeline.wait_for_table:
            return "nothing to do"
        raise


def _plan_show(name: str, preview: BatchPreview, screen: Screen) -> None:
    planned = preview.plan
    if preview.opened_at is not None:
        screen.say(f"{name}: batch {planned.batch_number} is open since {preview.opened_at}; a run resumes it")
    screen.table(
        ("step", "commit snapshot", "time", "kind", "snapshots"),
        (
            (
                str(step.change_ordinal),
                str(step.commit_snapshot_id),
                time_of_ms(step.commit_timestamp_us // 1000),
                step.kind.value,
                str(len(step.snapshot_ids)),
            )
            for step in planned.spec.steps
        ),
        numbers=("step", "snapshots"),
    )
    screen.facts(
        [
            (
                "batch",
                str(planned.batch_number) + (f" of backfill {planned.backfill_id}" if planned.backfill_id else ""),
            ),
            ("route", planned.route.value),
            ("changes", planned.spec.changes),
            ("after snapshot", id_text(planned.spec.after_snapshot_id)),
            ("up to snapshot", id_text(planned.spec.up_to_snapshot_id)),
            ("replace snapshots skipped", f"{planned.spec.skipped_replace_snapshots:,}"),
            ("snapshots after it", "-" if (rest := preview.snapshots_after) is None else f"{rest:,}"),
            ("data files", f"{preview.files:,}"),
            ("delete files", f"{preview.delete_files:,}"),
            *(("of the initial load", str(step.load_part)) for step in planned.spec.steps if step.load_part),
            ("rows", f"{planned.input_rows:,}"),
            ("bytes", format_bytes(sum(planned.map_task_bytes))),
            ("map tasks", f"{planned.num_map_tasks:,}"),
            ("reduce partitions", _partitions(preview)),
            ("identity", identity_text(planned.spec.identity)),
            ("columns", "all" if planned.spec.columns is None else ", ".join(planned.spec.columns)),
            ("filter", planned.spec.filter or "none"),
            ("to", preview.changes_path),
        ]
    )
    for warning in planned.warnings:
        screen.say(f"warning: {warning}")
    refusal = preview.refusal()
    if refusal is not None:
        screen.say(f"a run refuses this: {refusal}")


def _nothing() -> dict[str, object]:
    return {"batch": None, "route": Route.NOTHING_TO_DO.value, "steps": [], "files": 0, "rows": 0, "bytes": 0}


def _plan_document(preview: BatchPreview) -> dict[str, object]:
    planned = preview.plan
    return {
        "batch": planned.batch_number,
        "is_open": preview.opened_at is not None,
        "backfill_id": planned.backfill_id,
        "route": planned.route.value,
        "changes": planned.spec.changes,
        "after_snapshot_id": id_json(planned.spec.after_snapshot_id),
        "up_to_snapshot_id": id_json(planned.spec.up_to_snapshot_id),
        "steps": [
            {
                "change_ordinal": step.change_ordinal,
                "kind": step.kind.value,
                "commit_snapshot_id": id_json(step.commit_snapshot_id),
                "commit_timestamp": time_of_ms(step.commit_timestamp_us // 1000),
                "snapshot_ids": [id_json(snapshot_id) for snapshot_id in step.snapshot_ids],
            }
            for step in planned.spec.steps
        ],
        "skipped_replace_snapshots": planned.spec.skipped_replace_snapshots,
        "snapshots_after": preview.snapshots_after,
        "files": preview.files,
        "delete_files": preview.delete_files,
        "rows": planned.input_rows,
        "bytes": sum(planned.map_task_bytes),
        "map_tasks": planned.num_map_tasks,
        "partitions": planned.num_partitions,
        "partitions_reason": planned.partitions_reason,
        "identifier_columns": list(planned.spec.identity.columns),
        "columns": None if planned.spec.columns is None else list(planned.spec.columns),
        "filter": planned.spec.filter,
        "warnings": list(planned.warnings),
        "refusal": preview.refusal(),
    }


def _partitions(preview: BatchPreview) -> str:
    if preview.plan.route is not Route.SHUFFLE:
        return "none: nothing is shuffled"
    return f"{preview.plan.num_partitions:,} ({preview.plan.partitions_reason})"
