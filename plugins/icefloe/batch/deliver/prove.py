"""The proof of a batch: the records of its tasks add up, and its files become whole for readers."""

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.batch.context.batch_folder import BatchFolder, UnfinishedTasksError
from icefloe.batch.context.running_batch import RunningBatch
from icefloe.batch.phase_record import CheckResult, load_phase
from icefloe.batch.plan_document import Plan
from icefloe.batch.reduce.coalesce_map_outputs import load_coalesce_plan
from icefloe.batch.report import SummaryCheck
from icefloe.batch.rows.file_effects import Sums
from icefloe.batch.rows.row_reader import RowLimit
from icefloe.batch.staged_changes import RangeResult
from icefloe.changes.columns import ChangeColumns, ChangeType
from icefloe.checkpoint.records import OffsetRecord
from icefloe.documents import digest_of, dump_document
from icefloe.errors import TerminalError, TransientError
from icefloe.flow import FlowTask, Phase, Route
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.iceberg.step import StepKind
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.settings import OutputOption
from icefloe.shuffle.committed_output import MapOutputRecord
from icefloe.shuffle.index_file import OrdinalSums
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch, StagedPart
from icefloe.sinks.change_files import ChangeFiles
from icefloe.sinks.manifest import BatchSummary, CommitMessage, DamagedPartsError, Manifest, Part
from icefloe.storage.store import KeyMissingError

__all__ = ["OutputMode", "proven_batch", "staged_parts"]

logger = logging.getLogger(__name__)
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedTasks:
    plan: Plan
    records: Sequence[MapOutputRecord]
    results: Sequence[RangeResult]
    messages: Sequence[CommitMessage]
    checks: tuple[SummaryCheck, ...] = ()
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, folder: BatchFolder) -> Self:
        """`UnfinishedTasksError` if a task has not finished."""
        plan, records, results = folder.plan, _records(folder), list[RangeResult]()
        if plan.route is Route.SHUFFLE:
            results = _results(folder)
            messages = [result.message for result in results]
        else:
            messages = [
                CommitMessage.of_record(record.part, what=f"the part of commit record {record.map_id}")
                for record in records
            ]
        return cls(plan=plan, records=records, results=results, messages=messages)

    @property
    def handed_on(self) -> Sums:
        """Sums of the map tasks' rows by step, even if changes are net."""
        return _merged(record.ordinals for record in self.records)

    @property
    def summary(self) -> BatchSummary:
        """The batch as its manifest has it."""
        plan, spec = self.plan, self.plan.spec
        return BatchSummary.of(
            self.messages, pipeline=plan.pipeline, table=plan.table, batch_number=plan.batch_number,
            after_snapshot_id=spec.after_snapshot_id, up_to_snapshot_id=spec.up_to_snapshot_id, steps=len(spec.steps),
            hash_key=spec.hash_key, changed_partitions=plan.changed_partitions,
        )  # fmt: skip

    def audit(self) -> None:
        """Proves that the changes that were written have the sums of the rows that the map tasks handed on."""
        what = f"batch {self.plan.batch_number} of {self.plan.pipeline}"
        delivered_sums = self.handed_on
        if self.plan.route is Route.SHUFFLE:
            delivered_sums = _merged(result.sums for result in self.results)
            delivered_sums.require(self.handed_on, what=what, per_ordinal=not self.plan.is_net)
        signed_count = sum(delivered_sums.signed_counts().values())
        # A second path: what the sink was given, as its messages count it, against what the tasks summed up.
        given = _signed_count(self.summary.counts), self.summary.hash_sum
        if given != (signed_count, delivered_sums.hash_sum()):
            raise TerminalError(
                f"{what} does not add up at the sink: {signed_count} rows net with hash sum "
                f"{delivered_sums.hash_sum():032x} were delivered, but {given[0]} with {given[1]:032x} were written; "
                "the batch is not delivered, report this with the batch's folder",
            )


def prove(running: RunningBatch) -> FinishedTasks:
    """Audits a batch; `UnfinishedTasksError` if a part is missing."""
    batch = FinishedTasks.of(running.folder)
    batch.audit()
    pipeline = running.settings.pipeline
    _refuse_removed_rows(batch, pipeline)
    stops = pipeline.on_summary_mismatch == "fail"
    checks, warnings = check_summaries(running.plan, batch.handed_on, stops=stops)
    return replace(batch, checks=checks, warnings=warnings)


def prove_and_publish(running: RunningBatch) -> FinishedTasks:
    """Audits a batch and writes its manifest; `UnfinishedTasksError` if a part is missing or cut, or not checked."""
    batch = prove(running)
    found = checked(running, batch)
    with written_again_if_damaged(running, batch):
        running.folder_of_changes.commit(batch.summary, batch.messages, running.folder.shape.delivered.schema_json)
    return replace(batch, warnings=(*batch.warnings, *(each.sentence for each in found if each.outcome != "passed")))


@contextmanager
def written_again_if_damaged(running: RunningBatch, batch: FinishedTasks) -> Iterator[None]:
    """Lets the tasks of damaged parts run again, by `UnfinishedTasksError`."""
    try:
        yield
    except DamagedPartsError as damage:
        _forget(running.folder, batch, damage)
        raise UnfinishedTasksError.at(
            staging_phase(running.plan), damage.sentence, then="those parts are written again"
        ) from damage


def check_digests(pipeline: Pipeline, batch: FinishedTasks) -> list[str]:
    """A digest of each check and of the changes that it is about: an edited check counts at the next try."""
    seen = dump_document(batch.summary).decode()
    return [digest_of(json.dumps([asdict(check), seen]).encode()) for check in pipeline.checks]


def checked(running: RunningBatch, batch: FinishedTasks) -> tuple[CheckResult, ...]:
    """The results of the checks; `UnfinishedTasksError` unless each has passed, or readers see the batch already."""
    pipeline, number = running.settings.pipeline, running.plan.batch_number
    record = load_phase(running.folder.store, FlowTask.CHECK) if pipeline.checks else None
    found = () if record is None else record.checks
    passed = {each.digest for each in found if each.outcome != "failed"}
    digests = check_digests(pipeline, batch)
    missing = [check.name for check, digest in zip(pipeline.checks, digests, strict=True) if digest not in passed]
    if missing and not running.may_be_seen:
        raise UnfinishedTasksError.at(
            FlowTask.CHECK,
            f"check {missing[0]} of batch {number} of {pipeline.name} has not passed as it is now",
            then="it is read again from the pipeline file",
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputMode:
    """The part of a batch that a sink is given.

    Attributes:
        skipped: change ordinals of the steps that are left out as a whole.
    """

    changes: OutputOption = "each"
    skipped: tuple[int, ...] = ()

    @classmethod
    def of(cls, batch: BatchSummary, parts: Sequence[StagedPart], changes: OutputOption) -> Self:
        """The output of a batch; its parts are read if steps are to be left out."""
        if changes != "append_only" or not ChangeType.removed_rows(batch.counts):
            return cls(changes=changes)
        return cls(changes=changes, skipped=tuple(sorted(_removing_ordinals(parts))))

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
                kept = kept.filter(pc.not_equal(kept.column(ChangeColumns.TYPE), ChangeType.UPDATE_BEFORE.name))
            if self.skipped:
                ordinals = pa.array(self.skipped, pa.int32())
                kept = kept.filter(pc.invert(pc.is_in(kept.column(ChangeColumns.ORDINAL), value_set=ordinals)))
            if kept.num_rows:
                yield kept


def _removing_ordinals(parts: Sequence[StagedPart]) -> set[int]:
    """Steps that remove or update a row."""
    found: set[int] = set()
    for part in parts:
        for rows in part.read():
            is_removed = pc.not_equal(rows.column(ChangeColumns.TYPE), ChangeType.INSERT.name)
            found.update(pc.unique(rows.column(ChangeColumns.ORDINAL).filter(is_removed)).to_pylist())
    return found


def proven_batch(
    offset: OffsetRecord, manifest: Manifest, output: OutputMode, *, is_replay: bool = False
) -> ProvenBatch:
    """A batch that was opened, by its manifest."""
    delivered = TableSchema.from_json(manifest.columns, name_mapping=None)
    batch, steps, part = manifest.batch, offset.spec.steps, offset.spec.load_part
    shown = delivered if offset.selected_columns is None else delivered.select(offset.selected_columns)
    is_load = bool(steps) and all(step.kind is StepKind.INITIAL for step in steps)
    return ProvenBatch(
        origin=Origin(owner=offset.checkpoint_id, pipeline=batch.pipeline, table=batch.table),
        batch_number=batch.batch_number,
        after_snapshot_id=batch.after_snapshot_id,
        up_to_snapshot_id=batch.up_to_snapshot_id,
        load_stop=None if part is None else part.stop_file,
        begins_anew=offset.begins_anew,
        is_load=is_load,
        # A pipeline from now or from the earliest snapshot on begins without a load: its first batch is all there is.
        ends_load=(is_load or offset.begins_anew) and (part is None or part.is_last),
        is_replay=is_replay,
        steps=batch.steps,
        rows=sum(output.counts(batch).values()),
        counts=output.counts(batch),
        schema=ChangeColumns.schema(delivered.arrow, with_batch=True, with_properties=offset.spec.has_properties),
        identity=offset.spec.identity.columns,
        selected=offset.selected_columns,
        field_ids=delivered.field_ids,
        defaulted=delivered.defaulted,
        changes=output.changes,
        hash_key=batch.hash_key,
        hash_sum=None if output.changes in ("upsert", "append_only") else batch.hash_sum,
        columns=shown.schema_json,
        changed_partitions=batch.changed_partitions,
        cut=manifest.cut,
        log=tuple(step for step in steps if step.made_current_at_ms is not None),
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
            urls=sink.part_urls(manifest.batch.batch_number, part),
        )
        first_row += part.rows


def _read(files: ChangeFiles, batch_number: int, part: Part, bound: RowLimit) -> Iterator[pa.RecordBatch]:
    try:
        for rows in files.read_part(batch_number, part):
            bound.check(rows, place=f"{part.names[0]} of batch {batch_number}")
            yield rows
    except KeyMissingError as error:
        # Whoever tries again finds that before it reads, and has it written once more if the batch is open.
        raise TransientError(f"{error.sentence}, which batch {batch_number} has staged: run again") from error


def staging_phase(plan: Plan) -> Phase:
    """The phase whose tasks write to the sink, and make lost map outputs again."""
    return Phase.SHUFFLE_READ if plan.route is Route.SHUFFLE else Phase.INSERT_ONLY


def _records(folder: BatchFolder) -> list[MapOutputRecord]:
    map_ids = range(folder.plan.num_map_tasks)
    found = [state.record for state in folder.map_outputs.states(map_ids)]
    return _all(folder, found, map_ids, what="map tasks", fault="have no valid output")


def _results(folder: BatchFolder) -> list[RangeResult]:
    range_ids = [each.range_id for each in load_coalesce_plan(folder).ranges]
    found = RangeResult.load_all(folder.store, range_ids)
    return _all(folder, found, range_ids, what="ranges", fault="have not been read")


def _all(
    folder: BatchFolder, found: Sequence[_Found | None], numbers: Sequence[int], *, what: str, fault: str
) -> list[_Found]:
    missing = [number for number, each in zip(numbers, found, strict=True) if each is None]
    if missing:
        raise UnfinishedTasksError.at(
            staging_phase(folder.plan),
            f"{len(missing)} of {len(found)} {what} of batch {folder.plan.batch_number} {fault} (the first: "
            f"{missing[0]})",
            then="only those run again",
        )
    return [each for each in found if each is not None]


def _merged(sums: Iterable[Sequence[OrdinalSums]]) -> Sums:
    return Sums(each for of_task in sums for each in of_task)


def _signed_count(counts: Mapping[str, int]) -> int:
    return sum(kind.weight * counts.get(kind.name.lower(), 0) for kind in ChangeType)


def check_summaries(plan: Plan, handed_on: Sums, *, stops: bool) -> tuple[tuple[SummaryCheck, ...], tuple[str, ...]]:
    """Compares inserts less deletes of each step with the snapshot summaries."""
    counts = handed_on.signed_counts()
    checks = tuple(
        SummaryCheck(change_ordinal=ordinal, expected=expected, found=counts.get(ordinal, 0))
        for ordinal, expected in enumerate(plan.summary_row_deltas)
    )
    sentences = tuple(
        f"snapshot {plan.spec.steps[check.change_ordinal].commit_snapshot_id} of {plan.table} says that it changed the "
        f"number of rows by {check.expected}, its data files say by {check.found}"
        for check in checks
        if check.expected is not None and check.expected != check.found
    )
    if sentences and stops:
        raise TerminalError(
            f"{sentences[0]}; nothing was committed: if a writer is known to write wrong summaries, set "
            "on_summary_mismatch: warn",
        )
    return checks, sentences


def _refuse_removed_rows(batch: FinishedTasks, pipeline: Pipeline) -> None:
    """Before the batch has a manifest it can still be abandoned."""
    removed, plan = ChangeType.removed_rows(batch.summary.counts), batch.plan
    if removed and pipeline.changes == "append_only" and pipeline.on_removed_rows == "fail":
        moves_on = " and icefloe set-cursor" if plan.backfill_id is None else ""
        raise TerminalError(
            f"batch {plan.batch_number} of {plan.pipeline} removes or updates {removed:,} rows, and changes is "
            "append_only: set on_removed_rows: skip to leave out the commits that do, or leave them out by "
            f"{plan.giving_up}{moves_on}",
            batch_number=plan.batch_number,
            key="changes",
        )


def _forget(folder: BatchFolder, batch: FinishedTasks, damage: DamagedPartsError) -> None:
    """Lets the tasks of damaged parts run again; the others are adopted."""
    numbers = set(damage.numbers)
    logger.warning("batch %d: parts %s are written again", batch.plan.batch_number, sorted(numbers))
    if batch.plan.route is Route.SHUFFLE:
        RangeResult.delete(folder.store, sorted(numbers))
        return
    for record in batch.records:
        if record.map_id in numbers:
            folder.map_outputs.void(record.map_id, record.generation, damage.sentence)
