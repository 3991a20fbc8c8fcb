"""``icefloe plan``: the batch that a run would read and write."""

import os
from argparse import Namespace

from icefloe.batch.open.identity_policy import identity_text
from icefloe.batch.open.open_batch import NextBatch, next_batch, requested_batch
from icefloe.batch.open.unfit_sink import refuse_rows_without_key
from icefloe.batch.plan.make_plan import PlannedBatch
from icefloe.batch.plan.plan_of_batch import plan_of, refuse_excessive_scan
from icefloe.cli.pipeline_session import load_named_pipeline, open_session, range_request
from icefloe.cli.screen import Screen
from icefloe.cli.shown_values import id_text
from icefloe.engines.phase_runner import phase_runner
from icefloe.errors import IcefloeError
from icefloe.flow import Route
from icefloe.iceberg.history.history import History
from icefloe.iceberg.history.lag import lag
from icefloe.units import format_bytes, id_json, time_of_us


def plan(arguments: Namespace, screen: Screen) -> int:
    """Shows the batch that ``run`` would deliver; writes nothing anywhere."""
    request = range_request(arguments)
    with screen.under_way("planning"):
        session = open_session(load_named_pipeline(arguments))
        cores = phase_runner(session.pipeline, os.environ).cores
        batch = next_batch(session, cores=cores) if request is None else requested_batch(session, request, cores=cores)
        if batch is not None and not batch.is_resumed:
            refuse_rows_without_key(session, batch.offset.spec.identity)
        planned_batch = None if batch is None or _is_committed(batch) else plan_of(batch)
    if batch is None or planned_batch is None:
        screen.say(f"{session.pipeline.name}: " + ("nothing to do" if batch is None else "delivered before"))
    else:
        _show(session.pipeline.name, batch, planned_batch, screen)
    if arguments.json:
        screen.json(_nothing() if planned_batch is None or batch is None else _document(batch, planned_batch))
    return 0


def _is_committed(batch: NextBatch) -> bool:
    return batch.is_resumed and batch.session.checkpoint.committed(batch.offset.batch_number) is not None


def _show(name: str, batch: NextBatch, planned_batch: PlannedBatch, screen: Screen) -> None:
    planned = planned_batch.plan
    if batch.is_resumed:
        screen.say(f"{name}: batch {planned.batch_number} is open since {batch.offset.opened_at}; a run resumes it")
    screen.table(
        ("step", "commit snapshot", "time", "kind", "snapshots"),
        (
            (
                str(step.change_ordinal),
                str(step.commit_snapshot_id),
                time_of_us(step.commit_timestamp_us),
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
            ("snapshots after it", "-" if (rest := _rest(batch, planned_batch)) is None else f"{rest:,}"),
            ("data files", f"{_files(planned_batch):,}"),
            ("delete files", f"{_delete_files(planned_batch):,}"),
            *(("of the initial load", str(step.load_part)) for step in planned.steps if step.load_part),
            ("rows", f"{planned.input_rows:,}"),
            ("bytes", format_bytes(sum(planned.map_task_bytes))),
            ("map tasks", f"{planned.num_map_tasks:,}"),
            ("reduce partitions", _partitions(planned_batch)),
            ("identity", identity_text(planned.identity)),
            ("columns", "all" if planned.columns is None else ", ".join(planned.columns)),
            ("filter", planned.filter or "none"),
            ("to", str(batch.session.settings.sink["path"])),
        ]
    )
    for warning in planned.warnings:
        screen.say(f"warning: {warning}")
    refusal = _refusal(batch, planned_batch)
    if refusal is not None:
        screen.say(f"a run refuses this: {refusal}")


def _nothing() -> dict[str, object]:
    return {"batch": None, "route": Route.NOTHING_TO_DO.value, "steps": [], "files": 0, "rows": 0, "bytes": 0}


def _refusal(batch: NextBatch, planned_batch: PlannedBatch) -> str | None:
    """The reason why a run would not deliver the planned batch; None if there is none."""
    try:
        refuse_excessive_scan(batch, planned_batch)
    except IcefloeError as error:
        return error.sentence
    return None


def _document(batch: NextBatch, planned_batch: PlannedBatch) -> dict[str, object]:
    planned = planned_batch.plan
    return {
        "batch": planned.batch_number,
        "is_open": batch.is_resumed,
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
                "commit_timestamp": time_of_us(step.commit_timestamp_us),
                "snapshot_ids": [id_json(snapshot_id) for snapshot_id in step.snapshot_ids],
            }
            for step in planned.steps
        ],
        "skipped_replace_snapshots": planned.skipped_replace_snapshots,
        "snapshots_after": _rest(batch, planned_batch),
        "files": _files(planned_batch),
        "delete_files": _delete_files(planned_batch),
        "rows": planned.input_rows,
        "bytes": sum(planned.map_task_bytes),
        "map_tasks": planned.num_map_tasks,
        "partitions": planned.num_partitions,
        "partitions_reason": planned.partitions_reason,
        "identifier_columns": list(planned.identity.columns),
        "columns": None if planned.columns is None else list(planned.columns),
        "filter": planned.filter,
        "warnings": list(planned.warnings),
        "refusal": _refusal(batch, planned_batch),
    }


def _files(planned_batch: PlannedBatch) -> int:
    return sum(len(task.files) for task in planned_batch.tasks)


def _delete_files(planned_batch: PlannedBatch) -> int:
    """Number of delete files; each deletion vector counts as one."""
    return len({(file.path, file.content_offset) for task in planned_batch.tasks for file in task.delete_files})


def _rest(batch: NextBatch, planned_batch: PlannedBatch) -> int | None:
    """Number of snapshots that are left to later batches; None for a backfill, and if the branch went elsewhere."""
    if planned_batch.plan.backfill_id is not None:
        return None
    session, up_to = batch.session, planned_batch.plan.up_to_snapshot_id
    return lag(History.of(session.table), branch=session.pipeline.branch, cursor_snapshot_id=up_to).snapshots


def _partitions(planned_batch: PlannedBatch) -> str:
    if planned_batch.plan.route is not Route.SHUFFLE:
        return "none: nothing is shuffled"
    return f"{planned_batch.plan.num_partitions:,} ({planned_batch.plan.partitions_reason})"
