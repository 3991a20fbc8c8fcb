"""A batch that is proven and staged, as the sink that it is delivered to sees it."""

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa

from icefloe.batch.context.running_batch import RunningBatch
from icefloe.batch.deliver.output_mode import OutputMode
from icefloe.batch.rows.memory_limit import RowLimit
from icefloe.changes.columns import change_schema
from icefloe.checkpoint.identity import Identity
from icefloe.checkpoint.records import OffsetRecord
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.iceberg.step import Step, StepKind
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch, StagedPart
from icefloe.sinks.change_files import ChangeFiles
from icefloe.sinks.manifest import Manifest, Part

__all__ = ["committed_batch", "staged_parts"]


def proven_batch(running: RunningBatch, manifest: Manifest, output: OutputMode) -> ProvenBatch:
    """The batch of a run whose manifest is written.

    Args:
        running: the batch.
        manifest: its manifest.
        output: what of it the sink is given.
    """
    plan = running.plan
    if not plan.checkpoint_id:
        raise ValueError("a plan without a checkpoint is delivered to no sink")
    delivered = running.folder.shape.delivered
    return _proven(
        manifest,
        owner=plan.checkpoint_id,
        steps=plan.steps,
        schema=change_schema(delivered.arrow, with_batch=True),
        columns=delivered,
        identity=plan.identity,
        selected=running.settings.columns,
        output=output,
        begins_anew=running.checkpoint.begins_anew(plan.batch_number),
        delivered_before=running.checkpoint.last_delivered(before=plan.batch_number),
    )


def committed_batch(
    offset: OffsetRecord,
    manifest: Manifest,
    output: OutputMode,
    *,
    owner: str,
    schema: pa.Schema,
) -> ProvenBatch:
    """A batch that is committed, to be delivered once more.

    Args:
        offset: its offset record.
        manifest: its manifest.
        output: what of it the sink is given.
        owner: id of the checkpoint that it belongs to.
        schema: of its rows.
    """
    return _proven(
        manifest,
        owner=owner,
        steps=offset.steps,
        schema=schema,
        identity=offset.spec.identity,
        selected=_selected(offset),
        output=output,
        begins_anew=offset.begins_anew,
        is_replay=True,
    )


def _proven(
    manifest: Manifest,
    *,
    owner: str,
    steps: Sequence[Step],
    schema: pa.Schema,
    identity: Identity,
    selected: tuple[str, ...] | None,
    output: OutputMode,
    begins_anew: bool,
    columns: TableSchema | None = None,
    delivered_before: int | None = None,
    is_replay: bool = False,
) -> ProvenBatch:
    batch = manifest.batch
    part = steps[0].load_part if steps else None
    is_load = bool(steps) and all(step.kind is StepKind.INITIAL for step in steps)
    return ProvenBatch(
        origin=Origin(owner=owner, pipeline=batch.pipeline, table=batch.table),
        batch_number=batch.batch_number,
        after_snapshot_id=batch.after_snapshot_id,
        up_to_snapshot_id=batch.up_to_snapshot_id,
        begins_anew=begins_anew,
        is_load=is_load,
        # A pipeline from now or from the earliest snapshot on begins without a load: its first batch is all there is.
        ends_load=(is_load or begins_anew) and (part is None or part.is_last),
        delivered_before=None if begins_anew else delivered_before,
        is_replay=is_replay,
        steps=batch.steps,
        rows=sum(output.counts(batch).values()),
        counts=output.counts(batch),
        schema=schema,
        identity=identity.columns,
        selected=selected,
        field_ids={} if columns is None else columns.field_ids,
        defaulted=frozenset() if columns is None else columns.defaulted,
        changes=output.changes,
        hash_key=batch.hash_key,
        cut=manifest.cut,
    )


def staged_manifest(sink: ChangeFiles, batch_number: int) -> Manifest:
    """The manifest of a staged batch.

    Raises:
        KeyMissingError: the batch is not whole.
    """
    return sink.manifest(batch_number)


def staged_parts(sink: ChangeFiles, manifest: Manifest, *, memory_bytes: int) -> Iterator[StagedPart]:
    """The parts of a staged batch, numbered by their places in the manifest, which never changes.

    Args:
        sink: the place of the staged batch.
        manifest: of the batch.
        memory_bytes: memory of the task that reads a part; a row that needs more is refused as it is read.
    """
    files, bound, first_row = sink, RowLimit(memory_bytes=memory_bytes), 0
    for number, part in enumerate(manifest.parts):
        yield StagedPart(
            number=number,
            first_row=first_row,
            rows=part.rows,
            size_bytes=part.size_bytes,
            read=partial(_read, files, manifest.batch.batch_number, part, bound),
        )
        first_row += part.rows


def _read(files: ChangeFiles, batch_number: int, part: Part, bound: RowLimit) -> Iterator[pa.RecordBatch]:
    for rows in files.read_part(batch_number, part):
        bound.check(rows, place=f"{part.names[0]} of batch {batch_number}")
        yield rows


def _selected(offset: OffsetRecord) -> tuple[str, ...] | None:
    """The columns that the pipeline selected as it opened a batch: those of the identity were added behind them."""
    recorded = offset.result_configuration.get("columns")
    return offset.spec.columns[: len(recorded)] if offset.spec.columns and isinstance(recorded, list) else None
