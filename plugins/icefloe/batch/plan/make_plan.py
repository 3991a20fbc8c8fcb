"""A batch's plan: made from its specification, or found in its folder, and refused if unfit."""

from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final, Literal

import pyarrow as pa

from icefloe.batch.context.batch_folder import load_plan
from icefloe.batch.open.next_batch import NextBatch
from icefloe.batch.plan.map_tasks import PlannedFile, divided_tasks, map_task_document, map_tasks
from icefloe.batch.plan_document import MapTask, Plan
from icefloe.batch.rows.row_shape import RowShape
from icefloe.changes.columns import ChangeColumns
from icefloe.checkpoint.batch_spec import BatchSpec
from icefloe.checkpoint.records import OffsetRecord
from icefloe.documents import digest_of, document_digest, dump_document
from icefloe.errors import TerminalError
from icefloe.flow import Route
from icefloe.iceberg.files.reader import FileReader
from icefloe.iceberg.history.history import History
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.scan.scan_tasks import ScanPlan
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.pipeline.model import ChangesPlace, Pipeline
from icefloe.storage.store import Store
from icefloe.units import format_bytes
from icefloe.version import VERSION

__all__ = ["PlannedBatch", "make_plan"]

MAX_PARTITIONS: Final = 4096
_MIN_PARTITIONS: Final = 64
_ROWS_PER_HASH_PARTITION: Final = 1 << 20
"""At most 44 MB of hash rows, unless rows are changed several times."""
_MAX_HASH_PARTITIONS: Final = 256
_MOST_CHANGED_PARTITIONS: Final = 200
"""Each is an event of Airflow and a run of every DAG that waits for it."""


def partition_count(
    configured: int | Literal["auto"], *, cores: int, input_bytes: int, target_size_bytes: int
) -> tuple[int, str]:
    """Reduce partitions as configured, or enough for the cores and the bytes; and the reason.

    >>> partition_count("auto", cores=2, input_bytes=10**6, target_size_bytes=2**26)
    (64, 'auto: 2 cores, at least 64, rounded up to a power of two, at most 4096')
    >>> partition_count("auto", cores=2, input_bytes=2**40, target_size_bytes=2**26)
    (4096, 'auto: 1.0 TiB of input in ranges of 64.0 MiB, rounded up to a power of two, at most 4096')
    """
    if configured != "auto":
        return configured, "shuffle.partitions of the pipeline"
    for_cores = max(_MIN_PARTITIONS, 10 * cores)
    for_bytes = -(-input_bytes // target_size_bytes)
    why = f"{cores} cores, at least {_MIN_PARTITIONS}"
    if for_bytes > for_cores:
        why = f"{format_bytes(input_bytes)} of input in ranges of {format_bytes(target_size_bytes)}"
    rounded = 1 << (max(for_cores, for_bytes) - 1).bit_length()
    return min(MAX_PARTITIONS, rounded), f"auto: {why}, rounded up to a power of two, at most {MAX_PARTITIONS}"


def hash_partition_count(input_rows: int) -> int:
    """Hash partitions for so many rows; a small batch has one, because each is a block of each map output.

    >>> [hash_partition_count(rows) for rows in (0, 10**6, 10**8, 10**10)]
    [1, 1, 128, 256]
    """
    wanted = max(1, -(-input_rows // _ROWS_PER_HASH_PARTITION))
    return min(_MAX_HASH_PARTITIONS, 1 << (wanted - 1).bit_length())


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBatch:
    """A plan, its map tasks and their partitions. No clock was read, so the same batch gives an equal one."""

    plan: Plan
    tasks: tuple[MapTask, ...]
    changed_partitions: pa.Table


def make_plan(table: LoadedTable, spec: BatchSpec, *, filter_text: str | None = None) -> PlannedBatch:
    """Plans a batch from metadata, manifests, and footers of large data files; whose batch it is says the caller.

    Args:
        filter_text: the filter with ``${ENV}`` expanded.
    """
    #   specification -> columns -> files of each step -> map tasks -> header, which names all of them
    schema = TableSchema.at(table.metadata, spec.up_to_snapshot_id, after_snapshot_id=spec.after_snapshot_id)
    shape = RowShape.of(
        schema,
        identity=spec.identity,
        columns=spec.columns,
        filter_text=filter_text,
        filter_as_written=spec.filter,
        table=table.name,
        hash_key=spec.hash_key,
    )
    ChangeColumns.refuse_in(shape.delivered.arrow.names, table=table.name)
    scan = ScanPlan.of(table, spec.steps, row_filter=shape.row_filter, by_row_id=shape.has_row_id)
    changed_partitions = scan.changed_partitions(table)
    num_partitions, partitions_reason = partition_count(
        spec.partitions,
        cores=spec.cores,
        input_bytes=scan.file_size_bytes,
        target_size_bytes=spec.target_size_bytes,
    )
    route = _route(scan, spec)
    needs_hash_rows = shape.is_identity_carried and route is Route.SHUFFLE
    row_deltas = _summary_row_deltas(table.history, spec, scan)
    files = [PlannedFile(task=task, bounds=task.bounds(schema), delete_files=scan.delete_files) for task in scan.tasks]
    groups = map_tasks(files, map_task_bytes=spec.map_task_bytes)
    reader = FileReader(io=table.io, table=table.name)
    divided = divided_tasks(groups, reader, map_task_bytes=spec.map_task_bytes)
    tasks = tuple(map_task_document(map_id, group, scan.delete_files) for map_id, group in enumerate(divided))
    documents = [dump_document(task) for task in tasks]
    ends = [spec.up_to_snapshot_id, spec.after_snapshot_id]
    plan = Plan(
        icefloe_version=VERSION,
        route=route,
        table=table.name,
        table_location=table.metadata.location,
        spec=spec,
        summary_row_deltas=row_deltas,
        table_schema=schema.schema_json,
        name_mapping=schema.name_mapping_json,
        equality_schemas={
            ",".join(map(str, ids)): keys.schema_json for ids, keys in scan.equality_schemas(table, ends).items()
        },
        map_task_bytes=tuple(task.size_bytes for task in tasks),
        map_task_digests=tuple(map(digest_of, documents)),
        map_task_ends=tuple(accumulate(map(len, documents))),
        input_rows=scan.record_count,
        num_partitions=num_partitions,
        hash_partitions=hash_partition_count(scan.record_count) if needs_hash_rows else 0,
        partitions_reason=partitions_reason,
        changed_partitions=_named(changed_partitions),
    )
    return PlannedBatch(plan=plan, tasks=tasks, changed_partitions=changed_partitions)


def _named(changed_partitions: pa.Table) -> tuple[str, ...] | None:
    """Their paths; None if one has no name, or if they are too many for documents and events."""
    paths = tuple(dict.fromkeys(changed_partitions["path"].to_pylist()))
    return None if "" in paths or len(paths) > _MOST_CHANGED_PARTITIONS else paths


def _summary_row_deltas(history: History, spec: BatchSpec, scan: ScanPlan) -> tuple[int | None, ...]:
    """Row deltas by snapshot summaries; None if a filter or delete files hide rows that summaries count."""
    hidden = range(len(spec.steps)) if spec.filter is not None else scan.ordinals_with_deletes
    return tuple(None if step.change_ordinal in hidden else history.row_delta(step) for step in spec.steps)


def _route(scan: ScanPlan, spec: BatchSpec) -> Route:
    if not scan.tasks:
        return Route.NOTHING_TO_DO
    # Net changes carry the last step of their identity, so the rows of several steps have to meet.
    is_separate = len(spec.steps) == 1 or spec.changes == "each"
    return Route.INSERT_ONLY if scan.inserts_only and is_separate else Route.SHUFFLE


def plan_of(batch: NextBatch) -> PlannedBatch:
    """The plan of a batch, as its offset specifies it."""
    offset, session = batch.offset, batch.session
    pipeline = session.pipeline
    with pipeline.with_lines():
        if offset.spec.up_to_snapshot_id is not None:
            session.table.history.snapshot(offset.spec.up_to_snapshot_id)
            session.table.history.require_same(offset.ending.cursor.snapshot)
        planned = make_plan(session.table, offset.spec, filter_text=pipeline.filter)
    # Events for the partitions of this range would say nothing of those whose rows vanished since.
    replaces_batches = offset.begins_anew and offset.batch_number > 0
    plan = replace(
        planned.plan,
        changed_partitions=None if replaces_batches else planned.plan.changed_partitions,
        pipeline=pipeline.name,
        # As the file has it: a catalog may fold the letters of a name.
        table=pipeline.table,
        batch_number=offset.batch_number,
        backfill_id=session.backfill_id,
        warnings=offset.warnings,
    )
    return replace(planned, plan=plan)


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


def refuse_other_plan(planned_batch: PlannedBatch, offset: OffsetRecord, pipeline: Pipeline) -> None:
    """Requires that a plan made again is the batch's first one: parts and running tasks of two plans would mix.

    A batch that only moves the cursor has none: a run that finds it under the number of its own looks again.
    """
    plan, number = planned_batch.plan, offset.batch_number
    recorded, current = ChangesPlace.recorded(offset.result_configuration), ChangesPlace.of(pipeline).path
    if recorded is not None and recorded.path != current:
        # No release would make the same plan.
        raise TerminalError(
            f"batch {number} of {plan.pipeline} was opened with its changes in {recorded.path}, but {recorded.keys} "
            f"leads to {current} now: restore {recorded.keys} until the batch is done",
            batch_number=number,
        )
    if plan.digest == offset.plan_digest:
        return
    raise TerminalError(
        f"batch {number} of {plan.pipeline} cannot be planned again as it was opened with icefloe "
        f"{offset.icefloe_version}: its plan is lost, and a new one would read or divide the range differently; "
        "finish the batch with that release, and restore the table's properties (schema.name-mapping.default) and "
        "metadata if they were edited since",
        batch_number=number,
    )
