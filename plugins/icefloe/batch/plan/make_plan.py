"""The draft of a batch's plan, before anything is written: the input of its tasks and the cut of its shuffle."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TypedDict

from icefloe.batch.map_task import MapTask
from icefloe.batch.plan.divided_tasks import divided_tasks
from icefloe.batch.plan.map_tasks import PlannedFile, map_tasks
from icefloe.batch.plan.partition_count import hash_partition_count, partition_count
from icefloe.batch.plan.task_document import map_task_document
from icefloe.batch.plan_document import Plan
from icefloe.batch.rows.row_shape import RowShape
from icefloe.changes.columns import refuse_reserved_columns
from icefloe.checkpoint.batch_spec import BatchSpec
from icefloe.documents import digest_of, dump_document
from icefloe.flow import Route
from icefloe.iceberg.history.history import History
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.history.summaries import summary_row_delta
from icefloe.iceberg.manifests.bounds import comparable_bounds
from icefloe.iceberg.manifests.manifest_entries import DataEntry
from icefloe.iceberg.scan.filter_pruning import FilterPruning
from icefloe.iceberg.scan.scan_tasks import ScanPlan, plan_scan_tasks
from icefloe.iceberg.schemas.equality_schema import equality_schemas
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.iceberg.step import Step
from icefloe.pipeline.option_values import ChangesOption
from icefloe.version import VERSION

__all__ = ["PlanLabels", "PlannedBatch", "make_plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLabels:
    """Names that a plan holds in addition to its specification: its pipeline, its table, its catalog and its sink.

    Attributes:
        catalog: as the pipeline file has it, ``${ENV}`` unexpanded; so are ``allowed_locations`` and ``sink``.
        filter_text: filter of the specification, ``${ENV}`` expanded.
    """

    pipeline: str
    backfill_id: str | None = None
    batch_number: int = 0
    table: str
    catalog: str | Mapping[str, str] = ""
    allowed_locations: tuple[str, ...] = ()
    sink: Mapping[str, object] = field(default_factory=dict)
    filter_text: str | None = None
    warnings: tuple[str, ...] = ()


class _Listed(TypedDict):
    map_task_bytes: tuple[int, ...]
    map_task_digests: tuple[str, ...]
    map_task_ends: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBatch:
    """A plan and its map tasks before anything is written: no clock was read, so the same batch gives an equal one."""

    plan: Plan
    tasks: tuple[MapTask, ...]


def make_plan(table: LoadedTable, spec: BatchSpec, labels: PlanLabels) -> PlannedBatch:
    """The plan of a batch; reads metadata and manifests, and footers of large data files.

    Args:
        table: as loaded.
        spec: specification of the batch.
        labels: names that the plan holds in addition.

    Raises:
        NotBuiltError: a column that cannot be read.
        TerminalError: a column has a reserved name or is missing; metadata is gone or damaged.
    """
    schema = TableSchema.at(table.metadata, spec.up_to_snapshot_id, after_snapshot_id=spec.start_snapshot_id)
    shape = RowShape.of(
        schema,
        identity=spec.identity,
        columns=spec.columns,
        filter_text=labels.filter_text,
        filter_as_written=spec.filter,
        table=labels.table,
        hash_key=spec.hash_key,
    )
    refuse_reserved_columns(shape.delivered.arrow.names, table=labels.table)
    may_match = _may_match(shape, table)
    scan = plan_scan_tasks(table, spec.steps, may_match=may_match, by_row_id=shape.has_row_id)
    groups = map_tasks(_files(scan, schema), map_task_bytes=spec.map_task_bytes)
    divided = divided_tasks(groups, io=table.io, table=labels.table, map_task_bytes=spec.map_task_bytes)
    tasks = tuple(map_task_document(map_id, files, scan.delete_files) for map_id, files in enumerate(divided))
    chosen = partition_count(
        None if spec.partitions == "auto" else spec.partitions,
        cores=spec.cores,
        input_bytes=scan.file_size_bytes,
        target_size_bytes=spec.target_size_bytes,
    )
    route = _route(scan, changes=spec.changes, steps=len(spec.steps))
    needs_hash_rows = shape.is_identity_carried and route is Route.SHUFFLE
    plan = Plan(
        icefloe_version=VERSION,
        pipeline=labels.pipeline,
        batch_number=labels.batch_number,
        backfill_id=labels.backfill_id,
        route=route,
        table=labels.table,
        table_location=table.metadata.location,
        catalog=labels.catalog,
        sink=labels.sink,
        after_snapshot_id=spec.after_snapshot_id,
        up_to_snapshot_id=spec.up_to_snapshot_id,
        steps=tuple(spec.steps),
        changes=spec.changes,
        columns=spec.columns,
        filter=spec.filter,
        summary_row_deltas=_summary_row_deltas(table.history, spec.steps, scan, is_filtered=spec.filter is not None),
        table_schema=schema.schema_json,
        name_mapping=schema.name_mapping_json,
        equality_schemas={
            ",".join(map(str, ids)): keys.schema_json
            for ids, keys in equality_schemas(
                table.metadata, scan.delete_files.values(), [spec.up_to_snapshot_id, spec.start_snapshot_id]
            ).items()
        },
        identity=spec.identity,
        hash_key=spec.hash_key,
        **_listed(tasks),
        input_rows=scan.record_count,
        num_partitions=chosen.num_partitions,
        hash_partitions=hash_partition_count(scan.record_count) if needs_hash_rows else 0,
        partitions_reason=chosen.reason,
        cores=spec.cores,
        target_size_bytes=spec.target_size_bytes,
        skipped_replace_snapshots=spec.skipped_replace_snapshots,
        warnings=labels.warnings,
        allowed_locations=labels.allowed_locations,
        planned_at="",
    )
    return PlannedBatch(plan=plan, tasks=tasks)


def _listed(tasks: Sequence[MapTask]) -> _Listed:
    """All that a plan says of its map tasks."""
    digests, sizes = [], []
    for task in tasks:
        document = dump_document(task)
        digests.append(digest_of(document))
        sizes.append(len(document))
    return _Listed(
        map_task_bytes=tuple(task.size_bytes for task in tasks),
        map_task_digests=tuple(digests),
        map_task_ends=tuple(accumulate(sizes)),
    )


def _files(scan: ScanPlan, schema: TableSchema) -> Sequence[PlannedFile]:
    return [
        PlannedFile(task=task, bounds=comparable_bounds(task, schema.columns), delete_files=scan.delete_files)
        for task in scan.tasks
    ]


def _summary_row_deltas(
    history: History, steps: Sequence[Step], scan: ScanPlan, *, is_filtered: bool
) -> tuple[int | None, ...]:
    """Row deltas of the steps by their summaries; None if a filter or delete files hide rows that summaries count."""
    hidden = {step.change_ordinal for step in steps} if is_filtered else scan.ordinals_with_deletes
    return tuple(
        None if step.change_ordinal in hidden else summary_row_delta(history.snapshots, step) for step in steps
    )


def _may_match(shape: RowShape, table: LoadedTable) -> Callable[[DataEntry], bool]:
    """Returns a test: True if a file may hold rows that the filter lets pass, so that it has to be read."""
    if shape.row_filter is None:
        return lambda _: True
    return FilterPruning(shape.row_filter, table.metadata.specs()).may_match


def _route(scan: ScanPlan, *, changes: ChangesOption, steps: int) -> Route:
    if not scan.tasks:
        return Route.NOTHING_TO_DO
    # Net changes carry the last step of their identity, so the rows of several steps have to meet.
    is_separate = steps == 1 or changes == "each"
    return Route.INSERT_ONLY if scan.inserts_only and is_separate else Route.SHUFFLE
