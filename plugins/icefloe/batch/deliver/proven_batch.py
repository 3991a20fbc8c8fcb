"""A batch that is proven and staged, and what of it a sink is given."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.batch.context.running_batch import RunningBatch
from icefloe.batch.rows.memory_limit import RowLimit
from icefloe.batch.run_settings import RunSettings
from icefloe.changes.columns import CHANGE_ORDINAL, CHANGE_TYPE, ChangeType, change_schema, removed_rows
from icefloe.checkpoint.batch_spec import BatchSpec
from icefloe.checkpoint.records import OffsetRecord
from icefloe.iceberg.step import StepKind
from icefloe.pipeline.option_values import OutputOption
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch, StagedPart
from icefloe.sinks.change_files import ChangeFiles
from icefloe.sinks.manifest import BatchSummary, Manifest, Part

__all__ = ["OutputMode", "committed_batch", "staged_parts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputMode:
    """The part of a batch that a sink is given.

    Attributes:
        skipped: change ordinals of the steps that are left out as a whole.
    """

    changes: OutputOption = "each"
    skipped: tuple[int, ...] = ()

    @classmethod
    def of(cls, batch: BatchSummary, parts: Sequence[StagedPart], settings: RunSettings) -> Self:
        """The output of a batch; its parts are read if steps are to be left out."""
        if settings.changes != "append_only" or not removed_rows(batch.counts):
            return cls(changes=settings.changes)
        return cls(changes=settings.changes, skipped=tuple(sorted(_removing_ordinals(parts))))

    def reduced(self, part: StagedPart) -> StagedPart:
        """The part with the rows that the sink is given, and its old numbers."""
        if self.changes != "upsert" and not self.skipped:
            return part
        return replace(part, read=partial(self._rows, part))

    def counts(self, batch: BatchSummary) -> dict[str, int]:
        """Changes by type that the sink is given, with steps that are left out."""
        left_out = ChangeType.UPDATE_BEFORE.name.lower() if self.changes == "upsert" else None
        return {name: number for name, number in batch.counts.items() if name != left_out}

    def _rows(self, part: StagedPart) -> Iterator[pa.RecordBatch]:
        for rows in part.read():
            kept = rows
            if self.changes == "upsert":
                kept = kept.filter(pc.not_equal(kept.column(CHANGE_TYPE), ChangeType.UPDATE_BEFORE.name))
            if self.skipped:
                ordinals = pa.array(self.skipped, pa.int32())
                kept = kept.filter(pc.invert(pc.is_in(kept.column(CHANGE_ORDINAL), value_set=ordinals)))
            if kept.num_rows:
                yield kept


def _removing_ordinals(parts: Sequence[StagedPart]) -> set[int]:
    """Steps that remove or update a row."""
    found: set[int] = set()
    for part in parts:
        for rows in part.read():
            is_removed = pc.not_equal(rows.column(CHANGE_TYPE), ChangeType.INSERT.name)
            found.update(pc.unique(rows.column(CHANGE_ORDINAL).filter(is_removed)).to_pylist())
    return found


def proven_batch(running: RunningBatch, manifest: Manifest, output: OutputMode) -> ProvenBatch:
    plan = running.plan
    if not plan.checkpoint_id:
        raise ValueError("a plan without a checkpoint is delivered to no sink")
    delivered, begins_anew = running.folder.shape.delivered, running.checkpoint.begins_anew(plan.batch_number)
    schema = change_schema(delivered.arrow, with_batch=True)
    return replace(
        _proven(manifest, plan.spec, output, owner=plan.checkpoint_id, schema=schema, begins_anew=begins_anew),
        delivered_before=None if begins_anew else running.checkpoint.last_delivered(before=plan.batch_number),
        selected=running.settings.columns,
        field_ids=delivered.field_ids,
        defaulted=delivered.defaulted,
    )


def committed_batch(
    offset: OffsetRecord,
    manifest: Manifest,
    output: OutputMode,
    *,
    owner: str,
    schema: pa.Schema,
) -> ProvenBatch:
    """A committed batch, to be delivered once more."""
    batch = _proven(manifest, offset.spec, output, owner=owner, schema=schema, begins_anew=offset.begins_anew)
    return replace(batch, is_replay=True, selected=_selected(offset))


def _proven(
    manifest: Manifest, spec: BatchSpec, output: OutputMode, *, owner: str, schema: pa.Schema, begins_anew: bool
) -> ProvenBatch:
    batch, steps, part = manifest.batch, spec.steps, spec.load_part
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
        steps=batch.steps,
        rows=sum(output.counts(batch).values()),
        counts=output.counts(batch),
        schema=schema,
        identity=spec.identity.columns,
        changes=output.changes,
        hash_key=batch.hash_key,
        cut=manifest.cut,
    )


def staged_parts(sink: ChangeFiles, manifest: Manifest, *, memory_bytes: int) -> Iterator[StagedPart]:
    """The parts of a staged batch, numbered by their places in the manifest, which never changes.

    A row that needs more than the memory of the task is refused as it is read.
    """
    bound, first_row = RowLimit(memory_bytes=memory_bytes), 0
    for number, part in enumerate(manifest.parts):
        yield StagedPart(
            number=number,
            first_row=first_row,
            rows=part.rows,
            size_bytes=part.size_bytes,
            read=partial(_read, sink, manifest.batch.batch_number, part, bound),
        )
        first_row += part.rows


def _read(files: ChangeFiles, batch_number: int, part: Part, bound: RowLimit) -> Iterator[pa.RecordBatch]:
    for rows in files.read_part(batch_number, part):
        bound.check(rows, place=f"{part.names[0]} of batch {batch_number}")
        yield rows


def _selected(offset: OffsetRecord) -> tuple[str, ...] | None:
    """In batches of a pipeline with ``columns``, those of the identity are behind the selected ones."""
    recorded = offset.result_configuration.get("columns")
    return offset.spec.columns[: len(recorded)] if offset.spec.columns and isinstance(recorded, list) else None
