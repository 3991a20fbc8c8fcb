"""``run``: one batch, without Airflow; ``plan``: its preview."""

import os
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.open.identity_policy import identity_text
from icefloe.batch.open.next_range import RequestedRange
from icefloe.batch.plan.batch_preview import BatchPreview, preview_batch
from icefloe.batch.report import BatchReport
from icefloe.checkpoint.log import OWNER, owner_of
from icefloe.cli.pipeline_session import awaited, load_named_pipeline, open_session, requested_range
from icefloe.cli.screen import Fact, Screen, answer_of, batch_text, id_text
from icefloe.engines.phase_runner import PhaseRunner
from icefloe.engines.run_batch import BatchRun, run_batch
from icefloe.errors import UsageError
from icefloe.flow import Route
from icefloe.iceberg.history.history import History
from icefloe.pipeline.model import Pipeline
from icefloe.units import format_bytes, id_json, time_of_ms


class Activity:
    """Shows one thing at a time, unless ``console`` is quiet."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: tuple[Progress, TaskID] | None = None

    @contextmanager
    def under_way(self, what: str) -> Iterator[None]:
        """Shows the work under way and its time."""
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        bar = Progress(*columns, console=self._console, transient=True, disable=self._console.quiet)
        with bar:
            self._shown = bar, bar.add_task(what, total=None)
            try:
                yield
            finally:
                self._shown = None

    def report(self, done: int, total: int) -> None:
        """Shows how many tasks are done; from any thread."""
        if self._shown is None:
            return
        bar, task = self._shown
        if not any(isinstance(column, BarColumn) for column in bar.columns):
            bar.columns = (*bar.columns[:2], BarColumn(), MofNCompleteColumn(), *bar.columns[2:])
        bar.update(task, completed=done, total=total)


_CHANGES: Final = ("insert", "delete", "update_before", "update_after")
_NOTHING_RUN: Final = {
    "batch": None, "route": Route.NOTHING_TO_DO.value, "after_snapshot_id": None, "up_to_snapshot_id": None, "steps": 0,
    **dict.fromkeys(_CHANGES, 0),
}  # fmt: skip
_NOTHING_PLANNED: Final[Mapping[str, object]] = {
    "batch": None, "route": Route.NOTHING_TO_DO.value, "steps": [], "files": 0, "rows": 0, "bytes": 0,
}  # fmt: skip


def run(arguments: Namespace, screen: Screen) -> None:
    """Delivers one batch; its JSON object is the last line of standard output."""
    request, pipeline = requested_range(arguments), load_named_pipeline(arguments)
    if arguments.take_over and owner_of(os.environ) is None:
        raise UsageError(f"--take-over needs an owner: set {OWNER} to the new owner of the checkpoint")
    done, waiting = _deliver(pipeline, request, screen, takes_over=arguments.take_over)
    _show(pipeline.name, done, screen)
    if waiting:
        screen.say(f"{waiting:,} snapshots are left to later batches: run again")
    screen.json(_NOTHING_RUN if done.report is None else answer_of(_run_facts(done.report)))


def _deliver(
    pipeline: Pipeline, request: RequestedRange | None, screen: Screen, *, takes_over: bool
) -> tuple[BatchRun, int]:
    with awaited(pipeline):
        with screen.under_way("opening the table"):
            session = open_session(pipeline, takes_over=takes_over)
        activity = Activity(screen.progress)
        phases = PhaseRunner.of(session.pipeline, os.environ, report_progress=activity.report)
        done = run_batch(session, request, environ=os.environ, phases=phases, observe=activity.under_way)
        return done, _left(session, done.report)
    return BatchRun(), 0


def _left(session: PipelineSession, report: BatchReport | None) -> int:
    """Number of snapshots left, as the run found the table; 0 after a backfill."""
    if report is None or report.backfill_id is not None:
        return 0
    behind = History.of(session.table).lag(
        branch=session.pipeline.branch, cursor_snapshot_id=report.batch.up_to_snapshot_id
    )
    return behind.snapshots or 0


def _show(name: str, done: BatchRun, screen: Screen) -> None:
    report = done.report
    if report is None:
        screen.say(f"{name}: nothing to do")
        return
    if done.was_abandoned:
        screen.say(f"{name}: batch {report.batch.batch_number} was abandoned meanwhile: run again for the next one")
    if done.was_committed_before:
        screen.say(f"{name}: this range was delivered before, at {report.committed_at}")
    screen.facts(_run_facts(report))
    for warning in report.warnings:
        screen.say(f"warning: {warning}")


def _run_facts(report: BatchReport) -> list[Fact]:
    number, after, up_to = report.batch.batch_number, report.batch.after_snapshot_id, report.batch.up_to_snapshot_id
    return [
        Fact("batch", batch_text(number, report.backfill_id), "batch", number),
        Fact("route", report.route.value, "route", report.route.value),
        Fact("after snapshot", id_text(after), "after_snapshot_id", id_json(after)),
        Fact("up to snapshot", id_text(up_to), "up_to_snapshot_id", id_json(up_to)),
        Fact("steps", f"{report.batch.steps:,}", "steps", report.batch.steps),
        Fact("read", f"{report.rows_read:,} rows, {format_bytes(report.bytes_read)}"),
        Fact("shuffled", f"{report.shuffled_rows:,} rows, {format_bytes(report.shuffled_bytes)}"),
        *(Fact(change, f"{report.batch.counts[change]:,}", change, report.batch.counts[change]) for change in _CHANGES),
    ]


def plan(arguments: Namespace, screen: Screen) -> None:
    """Shows the batch that ``run`` would deliver; writes nothing."""
    request, pipeline = requested_range(arguments), load_named_pipeline(arguments)
    with screen.under_way("planning"):
        preview = _preview(pipeline, request)
    if isinstance(preview, str):
        screen.say(f"{pipeline.name}: {preview}")
        screen.answer(_NOTHING_PLANNED)
    else:
        _show_plan(pipeline.name, preview, screen)


def _preview(pipeline: Pipeline, request: RequestedRange | None) -> BatchPreview | str:
    with awaited(pipeline):
        session = open_session(pipeline)
        return preview_batch(session, request, cores=PhaseRunner.of(session.pipeline, os.environ).cores)
    return "nothing to do"


def _show_plan(name: str, preview: BatchPreview, screen: Screen) -> None:
    planned, refusal, facts = preview.plan, preview.refusal(), _plan_facts(preview)
    steps = [
        {
            "change_ordinal": step.change_ordinal,
            "commit_snapshot_id": id_json(step.commit_snapshot_id),
            "commit_timestamp": time_of_ms(step.commit_timestamp_us // 1000),
            "kind": step.kind.value,
            "snapshot_ids": [id_json(snapshot_id) for snapshot_id in step.snapshot_ids],
        }
        for step in planned.spec.steps
    ]
    if preview.opened_at is not None:
        screen.say(f"{name}: batch {planned.batch_number} is open since {preview.opened_at}; a run resumes it")
    screen.table(
        ("step", "commit snapshot", "time", "kind", "snapshots"),
        [
            [*map(str, list(row.values())[:-1]), str(len(step.snapshot_ids))]
            for row, step in zip(steps, planned.spec.steps, strict=True)
        ],
        numbers=("step", "snapshots"),
    )
    screen.facts(facts)
    for warning in planned.warnings:
        screen.say(f"warning: {warning}")
    if refusal is not None:
        screen.say(f"a run refuses this: {refusal}")
    answer = {"is_open": preview.opened_at is not None, "steps": steps, "warnings": list(planned.warnings)}
    screen.answer({**answer_of(facts), **answer, "refusal": refusal})


def _plan_facts(preview: BatchPreview) -> list[Fact]:
    planned, spec, rest = preview.plan, preview.plan.spec, preview.snapshots_after
    skipped, size_bytes = spec.skipped_replace_snapshots, sum(planned.map_task_bytes)
    columns = None if spec.columns is None else list(spec.columns)
    return [
        Fact("batch", batch_text(planned.batch_number, planned.backfill_id), "batch", planned.batch_number),
        Fact("", "", "backfill_id", planned.backfill_id),
        Fact("route", planned.route.value, "route", planned.route.value),
        Fact("changes", spec.changes, "changes", spec.changes),
        Fact("after snapshot", id_text(spec.after_snapshot_id), "after_snapshot_id", id_json(spec.after_snapshot_id)),
        Fact("up to snapshot", id_text(spec.up_to_snapshot_id), "up_to_snapshot_id", id_json(spec.up_to_snapshot_id)),
        Fact("replace snapshots skipped", f"{skipped:,}", "skipped_replace_snapshots", skipped),
        Fact("snapshots after it", "-" if rest is None else f"{rest:,}", "snapshots_after", rest),
        Fact("data files", f"{preview.files:,}", "files", preview.files),
        Fact("delete files", f"{preview.delete_files:,}", "delete_files", preview.delete_files),
        *(Fact("of the initial load", str(step.load_part)) for step in spec.steps if step.load_part),
        Fact("rows", f"{planned.input_rows:,}", "rows", planned.input_rows),
        Fact("bytes", format_bytes(size_bytes), "bytes", size_bytes),
        Fact("map tasks", f"{planned.num_map_tasks:,}", "map_tasks", planned.num_map_tasks),
        Fact("reduce partitions", _partitions(preview), "partitions", planned.num_partitions),
        Fact("", "", "partitions_reason", planned.partitions_reason),
        Fact("identity", identity_text(spec.identity), "identifier_columns", list(spec.identity.columns)),
        Fact("columns", "all" if columns is None else ", ".join(columns), "columns", columns),
        Fact("filter", spec.filter or "none", "filter", spec.filter),
        Fact("to", preview.changes_path),
    ]


def _partitions(preview: BatchPreview) -> str:
    if preview.plan.route is not Route.SHUFFLE:
        return "none: nothing is shuffled"
    return f"{preview.plan.num_partitions:,} ({preview.plan.partitions_reason})"
