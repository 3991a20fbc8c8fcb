"""Verify: the delivered changes, replayed on the start state, must give the end state, row for row."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import numpy as np
import pyarrow as pa

from icefloe.audit.replay import MAX_SLICES, Replay
from icefloe.batch.document import FileWork
from icefloe.batch.row_reader import TableRowReader
from icefloe.batch.session import PipelineSession
from icefloe.changes.columns import BATCH, CHANGE_ORDINAL, CHANGE_TYPE, COMMIT_SNAPSHOT_ID, COMMIT_TIMESTAMP, ChangeType
from icefloe.changes.row_hash import row_hashes_of_batch
from icefloe.checkpoint.records import CommitRecord
from icefloe.errors import NotBuiltError
from icefloe.iceberg.scan_tasks import ScanPlan, plan_scan_tasks
from icefloe.iceberg.step import Step, StepKind
from icefloe.iceberg.table_schema import TableSchema
from icefloe.sinks.files import FilesSink

__all__ = ["VerifyReport", "verify"]

logger = logging.getLogger(__name__)

_ROWS_PER_SLICE: Final = 1 << 24
_OURS: Final = {BATCH, CHANGE_TYPE, CHANGE_ORDINAL, COMMIT_SNAPSHOT_ID, COMMIT_TIMESTAMP}
_WEIGHTS: Final = {kind.name: -1 if kind in (ChangeType.DELETE, ChangeType.UPDATE_BEFORE) else 1 for kind in ChangeType}


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """What a replay found.

    Attributes:
        batches: committed batches replayed.
        changes: delivered changes read.
        rows: of the end state.
        differing_rows: rows that the changes lost or made up.
        sentences: one per range that does not come out equal, and per part that is not what its manifest says.
    """

    batches: int
    changes: int
    rows: int
    differing_rows: int
    sentences: tuple[str, ...]

    @property
    def is_equal(self) -> bool:
        """Whether the changes are exactly the difference of the states."""
        return not self.sentences


@dataclass(frozen=True, slots=True, kw_only=True)
class _Segment:
    """Neighbouring batches delivered in one schema, and the states they lead from and to."""

    schema: TableSchema
    batches: Sequence[CommitRecord]

    @property
    def start(self) -> int | None:
        return self.batches[0].after_snapshot_id

    @property
    def end(self) -> int | None:
        return self.batches[-1].up_to_snapshot_id


def verify(session: PipelineSession) -> VerifyReport:
    """Replays everything a pipeline delivered; reads the sink and the table's states, changes nothing.

    Raises:
        NotBuiltError: the sink cannot be read back.
        TerminalError: a state that is needed has expired, or a part of the output is gone.
    """
    sink = session.sink
    if not isinstance(sink, FilesSink):
        raise NotBuiltError(f"the changes in a {session.pipeline.sink.type} sink cannot be read back: use files")
    batches = _committed(session)
    found = [_verify_segment(session, sink, segment) for segment in _segments(session, batches)]
    return VerifyReport(
        batches=len(batches),
        changes=sum(each.changes for each in found),
        rows=found[-1].rows if found else 0,
        differing_rows=sum(each.differing_rows for each in found),
        sentences=tuple(sentence for each in found for sentence in each.sentences),
    )


def _committed(session: PipelineSession) -> list[CommitRecord]:
    checkpoint = session.checkpoint
    cursor = checkpoint.cursor()
    numbers = range(0 if cursor is None else cursor.batch_number + 1)
    commits = [checkpoint.committed(number) for number in numbers]
    return [commit for commit in commits if commit is not None]


def _segments(session: PipelineSession, batches: Sequence[CommitRecord]) -> Iterator[_Segment]:
    """Batches grouped by the schema they deliver; not a first batch that only placed the cursor."""
    delivering = list(batches)
    if delivering and delivering[0].steps == 0 and delivering[0].after_snapshot_id is None:
        del delivering[0]
    metadata = session.table.metadata

    def schema_json(batch: CommitRecord) -> str:
        return str(TableSchema.at(metadata, batch.up_to_snapshot_id).schema_json["fields"])

    for _, group in groupby(delivering, key=schema_json):
        members = list(group)
        yield _Segment(schema=TableSchema.at(metadata, members[-1].up_to_snapshot_id), batches=members)


def _verify_segment(session: PipelineSession, sink: FilesSink, segment: _Segment) -> VerifyReport:
    start, end = (_state(session, snapshot_id) for snapshot_id in (segment.start, segment.end))
    manifests = [(batch.batch_number, sink.manifest(batch.batch_number)) for batch in segment.batches]
    changes = sum(manifest.batch.rows for _, manifest in manifests)
    slices = 1
    while slices < MAX_SLICES and max(start.record_count, end.record_count) + changes > slices * _ROWS_PER_SLICE:
        slices *= 2
    differing_rows = 0
    sentences: list[str] = []
    for number in range(slices):
        replay = Replay(slice_number=number, slices=slices)
        _add_state(session, segment.schema, start, 1, replay)
        for batch_number, manifest in manifests:
            for part in manifest.parts:
                rows, hash_sum = _add_changes(sink.read_part(batch_number, part), replay)
                if number == 0 and (rows, hash_sum) != (part.rows, part.hash_sum):
                    sentences.append(
                        f"part {part.names[0]} of batch {batch_number} is not what its manifest says: {rows} rows "
                        f"instead of {part.rows}, or other values"
                    )
        _add_state(session, segment.schema, end, -1, replay)
        differing_rows += replay.differing_rows()
    if differing_rows:
        sentences.append(
            f"batches {segment.batches[0].batch_number} to {segment.batches[-1].batch_number} of "
            f"{session.pipeline.name} do not lead from snapshot {segment.start} to {segment.end} of "
            f"{session.pipeline.table}: {differing_rows} rows are missing or too many"
        )
    logger.info("verified batches up to %d: %d rows differ", segment.batches[-1].batch_number, differing_rows)
    return VerifyReport(
        batches=len(segment.batches),
        changes=changes,
        rows=end.record_count,
        differing_rows=differing_rows,
        sentences=tuple(sentences),
    )


def _state(session: PipelineSession, snapshot_id: int | None) -> ScanPlan:
    """What to read for the table's rows at a snapshot; nothing for None, before the first one."""
    if snapshot_id is None:
        return ScanPlan(tasks=())
    step = Step(
        change_ordinal=0,
        kind=StepKind.INITIAL,
        start_snapshot_id=None,
        end_snapshot_id=snapshot_id,
        snapshot_ids=(snapshot_id,),
        commit_snapshot_id=snapshot_id,
        commit_timestamp_us=0,
    )
    return plan_scan_tasks(session.table, [step])


def _add_state(session: PipelineSession, schema: TableSchema, state: ScanPlan, weight: int, replay: Replay) -> None:
    reader = TableRowReader(schema=schema, io=session.table.io, table=session.pipeline.table)
    for task in state.tasks:
        for _, batch in reader.read_file(FileWork(data_file=task.data_file, weights=task.weights)):
            replay.add(row_hashes_of_batch(batch), np.full(batch.num_rows, weight, np.int64))


def _add_changes(batches: Iterator[pa.RecordBatch], replay: Replay) -> tuple[int, int]:
    """Adds the changes of one part; returns its rows and the sum of their hashes."""
    rows = hash_sum = 0
    for batch in batches:
        names = [name for name in batch.schema.names if name not in _OURS]
        types = batch.column(CHANGE_TYPE).dictionary_encode()
        by_code = np.array([_WEIGHTS[name] for name in types.dictionary.to_pylist()], np.int64)
        weights = by_code[types.indices.to_numpy(zero_copy_only=False)]
        hashes = row_hashes_of_batch(batch.select(names))
        replay.add(hashes, weights)
        rows += batch.num_rows
        hash_sum = (hash_sum + hashes.signed_sum(weights)) % (1 << 128)
    return rows, hash_sum
