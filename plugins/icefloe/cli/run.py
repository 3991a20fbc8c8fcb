"""``run``: one batch, without Airflow; ``plan``: its preview."""

import os
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.open.next_range import RequestedRange
from icefloe.batch.plan.batch_preview import BatchPreview
from icefloe.batch.report import BatchReport
from icefloe.checkpoint.records import Writer
from icefloe.cli.pipeline_session import awaited, load_named_pipeline, open_session, requested_range
from icefloe.cli.screen import Screen
from icefloe.engines.local import LocalEngine
from icefloe.engines.phase_runner import PhaseRunner
from icefloe.engines.run_batch import BatchRun, run_batch
from icefloe.errors import UsageError
from icefloe.flow import Route
from icefloe.pipeline.model import Pipeline
from icefloe.units import id_json, time_of_ms


class Activity(Progress):
    """Shows one thing at a time, with its time and the tasks that are done, unless ``console`` is quiet."""

    def __init__(self, console: Console) -> None:
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
        super().__init__(*columns, TimeElapsedColumn(), console=console, transient=True, disable=console.quiet)

    @contextmanager
    def under_way(self, what: str) -> Iterator[None]:
        """Shows the work under way."""
        shown = self.add_task(what, total=None)
        try:
            yield
        finally:
            self.remove_task(shown)

    def report(self, done: int, total: int) -> None:
        """Shows how many tasks are done; from any thread."""
        for shown in self.task_ids:
            self.update(shown, completed=done, total=total)


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
    if arguments.take_over and Writer.owner_in(os.environ) is None:
        raise UsageError("--take-over needs an owner: set ICEFLOE_OWNER to the new owner of the checkpoint")
    done, waiting = _deliver(pipeline, request, screen, takes_over=arguments.take_over)
    _show(pipeline.name, done, screen)
    if waiting:
        screen.say(f"{waiting:,} snapshots are left to later batches: run again")
    screen.json(_NOTHING_RUN if done.report is None else _run_answer(done.report))


def _deliver(
    pipeline: Pipeline, request: RequestedRange | None, screen: Screen, *, takes_over: bool
) -> tuple[BatchRun, int]:
    with awaited(pipeline):
        with screen.under_way("opening the table"):
            session = open_session(pipeline, takes_over=takes_over)
        with Activity(screen.progress) as activity:
            memory_bytes = session.pipeline.shuffle.memory_bytes
            engine = LocalEngine(memory_bytes=memory_bytes, report_progress=activity.report)
            phases = replace(PhaseRunner.of(session.pipeline, os.environ), engine=engine)
            done = run_batch(session, request, environ=os.environ, phases=phases, observe=activity.under_way)
        return done, _left(session, done.report)
    return BatchRun(), 0


def _left(session: PipelineSession, report: BatchReport | None) -> int:
    """Number of snapshots left, as the run found the table; 0 after a backfill."""
    if report is None or report.backfill_id is not None:
        return 0
    up_to = report.batch.up_to_snapshot_id
    return session.table.history.lag(branch=session.pipeline.branch, cursor_snapshot_id=up_to).snapshots or 0


def _show(name: str, done: BatchRun, screen: Screen) -> None:
    report = done.report
    if report is None:
        screen.say(f"{name}: nothing to do")
        return
    if done.was_abandoned:
        screen.say(f"{name}: batch {report.batch.batch_number} was abandoned meanwhile: run again for the next one")
    if done.was_committed_before:
        screen.say(f"{name}: this range was delivered before, at {report.committed_at}")
    figures = ("backfill_id", "rows_read", "bytes_read", "shuffled_rows", "shuffled_bytes", "warnings")
    screen.facts({**_run_answer(report), **{name: getattr(report, name) for name in figures}})


def _run_answer(report: BatchReport) -> dict[str, object]:
    batch = report.batch
    return {
        "batch": batch.batch_number, "route": report.route.value,
        "after_snapshot_id": id_json(batch.after_snapshot_id), "up_to_snapshot_id": id_json(batch.up_to_snapshot_id),
        "steps": batch.steps, **{change: batch.counts[change] for change in _CHANGES},
    }  # fmt: skip


def plan(arguments: Namespace, screen: Screen) -> None:
    """Shows the batch that ``run`` would deliver; writes nothing."""
    request, pipeline = requested_range(arguments), load_named_pipeline(arguments)
    preview: BatchPreview | str = "nothing to do"
    with screen.under_way("planning"), awaited(pipeline):
        session = open_session(pipeline)
        preview = BatchPreview.of(session, request, cores=PhaseRunner.of(session.pipeline, os.environ).cores)
    if isinstance(preview, str):
        screen.say(f"{pipeline.name}: {preview}")
        screen.answer({**_NOTHING_PLANNED, **({"changed_partitions": []} if arguments.partitions else {})})
        return
    document, refusal = _plan_document(preview), preview.refusal()
    if preview.batch.is_resumed:
        opened_at = preview.batch.offset.opened_at
        screen.say(f"{pipeline.name}: batch {document['batch']} is open since {opened_at}; a run resumes it")
    screen.table(document["steps"], ("change_ordinal", "commit_snapshot_id", "commit_timestamp", "kind"))
    screen.facts(document)
    if refusal is not None:
        screen.say(f"a run refuses this: {refusal}")
    asked: dict[str, Any] = {}
    if arguments.partitions:
        found = preview.planned.changed_partitions.select(["spec_id", "path"])
        asked["changed_partitions"] = found.to_pylist()
        screen.table(asked["changed_partitions"], found.column_names)
    screen.answer({**document, "refusal": refusal, **asked})


def _plan_document(preview: BatchPreview) -> dict[str, Any]:
    planned, spec, tasks = preview.planned.plan, preview.planned.plan.spec, preview.planned.tasks
    loaded = [str(step.load_part) for step in spec.steps if step.load_part]
    return {
        "batch": planned.batch_number,
        "backfill_id": planned.backfill_id,
        "is_open": preview.batch.is_resumed,
        "route": planned.route.value,
        "changes": spec.changes,
        "after_snapshot_id": id_json(spec.after_snapshot_id),
        "up_to_snapshot_id": id_json(spec.up_to_snapshot_id),
        "steps": [
            {
                "change_ordinal": step.change_ordinal,
                "commit_snapshot_id": id_json(step.commit_snapshot_id),
                "commit_timestamp": time_of_ms(step.commit_timestamp_us // 1000),
                "kind": step.kind.value,
                "snapshot_ids": [id_json(snapshot_id) for snapshot_id in step.snapshot_ids],
            }
            for step in spec.steps
        ],
        "initial_load": loaded[0] if loaded else None,
        "skipped_replace_snapshots": spec.skipped_replace_snapshots,
        "snapshots_after": preview.snapshots_after,
        "files": len({work.data_file.path for task in tasks for work in task.files}),
        # Each deletion vector of a file counts as one.
        "delete_files": len({(file.path, file.content_offset) for task in tasks for file in task.delete_files}),
        "rows": planned.input_rows,
        "bytes": sum(planned.map_task_bytes),
        "map_tasks": planned.num_map_tasks,
        "partitions": planned.num_partitions,
        "partitions_reason": planned.partitions_reason,
        "identity": str(spec.identity),
        "identifier_columns": list(spec.identity.columns),
        "columns": None if spec.columns is None else list(spec.columns),
        "filter": spec.filter,
        "to": preview.batch.session.settings.changes_folder.path,
        "warnings": list(planned.warnings),
    }
