"""``icefloe plan``: the batch that a run would read and write."""

import os
from argparse import Namespace

from icefloe.batch.open.identity_policy import identity_text
from icefloe.batch.open.requested_range import RequestedRange
from icefloe.batch.plan.batch_preview import BatchPreview, preview_batch
from icefloe.cli.pipeline_session import TABLE_IS_MISSING, load_named_pipeline, open_session, requested_range
from icefloe.cli.screen import Screen
from icefloe.cli.shown_values import id_text
from icefloe.engines.phase_runner import phase_runner
from icefloe.flow import Route
from icefloe.pipeline.model import Pipeline
from icefloe.units import format_bytes, id_json, time_of_ms


def plan(arguments: Namespace, screen: Screen) -> int:
    """Shows the batch that ``run`` would deliver; writes nothing anywhere."""
    request, pipeline = requested_range(arguments), load_named_pipeline(arguments)
    with screen.under_way("planning"):
        preview = _preview(pipeline, request)
    if isinstance(preview, BatchPreview):
        _show(pipeline.name, preview, screen)
    else:
        screen.say(f"{pipeline.name}: {preview}")
    if arguments.json:
        screen.json(_document(preview) if isinstance(preview, BatchPreview) else _nothing())
    return 0


def _preview(pipeline: Pipeline, request: RequestedRange | None) -> BatchPreview | str:
    """The batch, or the reason why a run would deliver nothing.

    A missing table or branch counts as nothing to do if the pipeline has ``wait_for_table``.
    """
    try:
        session = open_session(pipeline)
        return preview_batch(session, request, cores=phase_runner(session.pipeline, os.environ).cores)
    except TABLE_IS_MISSING:
        if pipeline.wait_for_table:
            return "nothing to do"
        raise


def _show(name: str, preview: BatchPreview, screen: Screen) -> None:
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
            for step in planned.steps
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
            ("changes", planned.changes),
            ("after snapshot", id_text(planned.after_snapshot_id)),
            ("up to snapshot", id_text(planned.up_to_snapshot_id)),
            ("replace snapshots skipped", f"{planned.skipped_replace_snapshots:,}"),
            ("snapshots after it", "-" if (rest := preview.snapshots_after) is None else f"{rest:,}"),
            ("data files", f"{preview.files:,}"),
            ("delete files", f"{preview.delete_files:,}"),
            *(("of the initial load", str(step.load_part)) for step in planned.steps if step.load_part),
            ("rows", f"{planned.input_rows:,}"),
            ("bytes", format_bytes(sum(planned.map_task_bytes))),
            ("map tasks", f"{planned.num_map_tasks:,}"),
            ("reduce partitions", _partitions(preview)),
            ("identity", identity_text(planned.identity)),
            ("columns", "all" if planned.columns is None else ", ".join(planned.columns)),
            ("filter", planned.filter or "none"),
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


def _document(preview: BatchPreview) -> dict[str, object]:
    planned = preview.plan
    return {
        "batch": planned.batch_number,
        "is_open": preview.opened_at is not None,
        "backfill_id": planned.backfill_id,
        "route": planned.route.value,
        "changes": planned.changes,
        "after_snapshot_id": id_json(planned.after_snapshot_id),
        "up_to_snapshot_id": id_json(planned.up_to_snapshot_id),
        "steps": [
            {
                "change_ordinal": step.change_ordinal,
                "kind": step.kind.value,
                "commit_snapshot_id": id_json(step.commit_snapshot_id),
                "commit_timestamp": time_of_ms(step.commit_timestamp_us // 1000),
                "snapshot_ids": [id_json(snapshot_id) for snapshot_id in step.snapshot_ids],
            }
            for step in planned.steps
        ],
        "skipped_replace_snapshots": planned.skipped_replace_snapshots,
        "snapshots_after": preview.snapshots_after,
        "files": preview.files,
        "delete_files": preview.delete_files,
        "rows": planned.input_rows,
        "bytes": sum(planned.map_task_bytes),
        "map_tasks": planned.num_map_tasks,
        "partitions": planned.num_partitions,
        "partitions_reason": planned.partitions_reason,
        "identifier_columns": list(planned.identity.columns),
        "columns": None if planned.columns is None else list(planned.columns),
        "filter": planned.filter,
        "warnings": list(planned.warnings),
        "refusal": preview.refusal(),
    }


def _partitions(preview: BatchPreview) -> str:
    if preview.plan.route is not Route.SHUFFLE:
        return "none: nothing is shuffled"
    return f"{preview.plan.num_partitions:,} ({preview.plan.partitions_reason})"
