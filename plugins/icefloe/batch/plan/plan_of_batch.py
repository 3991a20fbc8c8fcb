"""The plan of a batch: made from its offset, or found in its folder, and refused if unfit."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from icefloe.batch.batch_keys import PLAN
from icefloe.batch.context.batch_folder import load_plan
from icefloe.batch.open.claim_batch import refuse_unfit_sink
from icefloe.batch.open.next_batch import NextBatch
from icefloe.batch.plan.make_plan import PlanLabels, PlannedBatch, make_plan
from icefloe.batch.plan_document import Plan
from icefloe.checkpoint.records import OffsetRecord
from icefloe.documents import document_digest
from icefloe.errors import TerminalError
from icefloe.pipeline.model import ChangesPlace, Pipeline, with_lines
from icefloe.storage.store import Store
from icefloe.units import format_bytes


def plan_of(batch: NextBatch) -> PlannedBatch:
    """The plan of a batch, as its offset specifies it."""
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
    """Makes the checks that need the batch. Plans it only if ``max_scan_bytes`` is set."""
    refuse_unfit_sink(batch)
    if batch.session.pipeline.max_scan_bytes is not None and not batch.is_resumed:
        refuse_excessive_scan(batch, plan_of(batch))


def refuse_excessive_scan(batch: NextBatch, planned_batch: PlannedBatch) -> None:
    """Stops a batch above ``max_scan_bytes``, unless it is open already."""
    pipeline, plan = batch.session.pipeline, planned_batch.plan
    scan_bytes, most_bytes = sum(plan.map_task_bytes), pipeline.max_scan_bytes
    if batch.is_resumed or most_bytes is None or scan_bytes <= most_bytes:
        return
    what = f"batch {plan.batch_number}" if plan.backfill_id is None else f"backfill {plan.backfill_id}"
    raise TerminalError(
        f"{what} of {pipeline.name} would read {scan_bytes:,} bytes of files ({format_bytes(scan_bytes)}), and "
        f"max_scan_bytes is {most_bytes:,} ({format_bytes(most_bytes)}): raise max_scan_bytes, or make batches smaller "
        "by max_steps_per_batch or max_bytes_per_batch",
    )


def _sink_as_written(pipeline: Pipeline, offset: OffsetRecord) -> Mapping[str, Any]:
    settings = asdict(pipeline.as_written.changes_folder)
    del settings["conn_id"]
    return {**settings, "target_file_bytes": offset.spec.target_file_bytes}


def found_plan(batch: NextBatch) -> Plan | None:
    """The plan of an open batch; None if it is not written yet, or was lost."""
    store = batch.session.folder_of(batch.offset)
    return None if store.size(PLAN) is None else load_own_plan(store, batch.offset)


def load_own_plan(store: Store, offset: OffsetRecord) -> Plan:
    """The plan in the folder of a batch."""
    plan, url = load_plan(store), store.url
    end = plan.spec.up_to_snapshot_id
    # The digest is over the checkpoint's id, the number and the range too.
    if plan.offset_digest != document_digest(offset):
        raise TerminalError(
            f"{url} holds the plan of another batch, of pipeline {plan.pipeline}, batch {plan.batch_number} up to "
            f"snapshot {end}: the folder was copied, or its checkpoint was restored from a copy; "
            f"delete everything below {url} and run again: the batch is planned again from its checkpoint",
            url=url,
            batch_number=offset.batch_number,
        )
    return plan


def refuse_other_plan(planned_batch: PlannedBatch, offset: OffsetRecord) -> None:
    """Requires that a plan that is made again is the one that the batch was opened with.

    Parts of the first plan may be at the sink, and its tasks may still run: they would mix.
    """
    plan, number = planned_batch.plan, offset.batch_number
    if plan.digest == offset.plan_digest:
        return
    recorded, current = ChangesPlace.recorded(offset.result_configuration), str(plan.sink["path"])
    if recorded is not None and recorded.path != current:
        # No release would make the same plan.
        raise TerminalError(
            f"batch {number} of {plan.pipeline} was opened with its changes in {recorded.path}, but {recorded.keys} "
            f"leads to {current} now: restore {recorded.keys} until the batch is done",
            batch_number=number,
        )
    raise TerminalError(
        f"batch {number} of {plan.pipeline} cannot be planned again as it was opened with icefloe "
        f"{offset.icefloe_version}: its plan is lost, and a new one would read or divide the range differently; "
        "finish the batch with that release, and restore the table's properties (schema.name-mapping.default) and "
        "metadata if they were edited since",
        batch_number=number,
    )
