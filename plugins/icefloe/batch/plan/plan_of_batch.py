"""The plan of a pipeline's batch, made from its offset, and what the pipeline refuses of it."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from icefloe.batch.open.next_batch import NextBatch
from icefloe.batch.open.unfit_sink import refuse_unfit_sink
from icefloe.batch.plan.make_plan import PlanLabels, PlannedBatch, make_plan
from icefloe.checkpoint.records import OffsetRecord
from icefloe.errors import TerminalError
from icefloe.pipeline.error_lines import with_lines
from icefloe.pipeline.model import Pipeline
from icefloe.units import format_bytes


class ScanTooLargeError(TerminalError):
    """A batch would read more than ``max_scan_bytes``."""

    scan_bytes: int
    max_scan_bytes: int


def plan_of(batch: NextBatch) -> PlannedBatch:
    """The plan of a pipeline's batch, as its offset specifies it.

    Raises:
        TerminalError: a snapshot of the range has expired since the batch was recorded, or drawn up.
        IcefloeError: as `make_plan`.
    """
    offset, session = batch.offset, batch.session
    pipeline = session.pipeline
    with with_lines(pipeline):
        if offset.up_to_snapshot_id is not None:
            batch.table.history.snapshot(offset.up_to_snapshot_id)
            batch.require_same_end()
        return make_plan(
            batch.table,
            offset.spec,
            PlanLabels(
                pipeline=pipeline.name,
                backfill_id=session.backfill_id,
                batch_number=offset.batch_number,
                table=pipeline.table,
                catalog=pipeline.file.data["catalog"],
                allowed_locations=tuple(pipeline.file.data.get("allowed_locations") or ()),
                sink=_sink_as_written(pipeline, offset),
                filter_text=pipeline.filter,
                warnings=(*offset.warnings, *batch.warnings),
            ),
        )


def refuse_unfit(batch: NextBatch) -> None:
    """Makes the checks of `open_and_plan` that need the batch. Plans it only if ``max_scan_bytes`` is set.

    Raises:
        TerminalError: its sink cannot take it, or it would read too much.
    """
    refuse_unfit_sink(batch)
    if batch.session.pipeline.max_scan_bytes is not None and not batch.is_resumed:
        refuse_excessive_scan(batch, plan_of(batch))


def refuse_excessive_scan(batch: NextBatch, planned_batch: PlannedBatch) -> None:
    """Stops a batch that is not open yet if it would read more than ``max_scan_bytes``. An open batch stays open.

    Raises:
        ScanTooLargeError: the batch would read more; the error has both numbers.
    """
    if not batch.is_resumed:
        pipeline, plan = batch.session.pipeline, planned_batch.plan
        what = f"batch {plan.batch_number}" if plan.backfill_id is None else f"backfill {plan.backfill_id}"
        refuse_large_scan(
            sum(plan.map_task_bytes),
            max_scan_bytes=pipeline.max_scan_bytes,
            batch=f"{what} of {pipeline.name}",
        )


def refuse_large_scan(scan_bytes: int, *, max_scan_bytes: int | None, batch: str) -> None:
    """Stops a batch that would read too much, before anything of it is recorded.

    Args:
        scan_bytes: bytes of all files that the batch would read.
        max_scan_bytes: ``max_scan_bytes`` of the pipeline; None: no limit.
        batch: its name in the sentence.

    Raises:
        ScanTooLargeError: the batch would read more; the error has both numbers.
    """
    if max_scan_bytes is None or scan_bytes <= max_scan_bytes:
        return
    raise ScanTooLargeError(
        f"{batch} would read {scan_bytes:,} bytes of files ({format_bytes(scan_bytes)}), and max_scan_bytes is "
        f"{max_scan_bytes:,} ({format_bytes(max_scan_bytes)}): raise max_scan_bytes, or make batches smaller by "
        "max_steps_per_batch or max_bytes_per_batch",
        scan_bytes=scan_bytes,
        max_scan_bytes=max_scan_bytes,
    )


def _sink_as_written(pipeline: Pipeline, offset: OffsetRecord) -> Mapping[str, Any]:
    settings = asdict(pipeline.as_written.changes_folder)
    del settings["conn_id"]
    return {**settings, "target_file_bytes": offset.spec.target_file_bytes}
