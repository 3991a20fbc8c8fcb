"""The rows of the table at a snapshot, and the replay."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.plan.map_tasks import PlannedFile, map_task_document, map_tasks
from icefloe.batch.rows.file_effects import FileEffects, task_file_effects
from icefloe.batch.rows.row_reader import TableRowReader
from icefloe.batch.rows.row_shape import RowShape
from icefloe.batch.verify.key_ranges import FileKeys, KeyRange
from icefloe.changes.consolidate import consolidate
from icefloe.changes.hash_index import HashSlice
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.checkpoint.batch_spec import Identity
from icefloe.checkpoint.records import BatchOutcome, CommitRecord
from icefloe.errors import TerminalError
from icefloe.iceberg.files.reader import FileReader
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.scan.scan_tasks import ScanPlan
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.iceberg.step import LoadPart, Step, StepKind

__all__ = ["committed_batches", "rows_at"]


def since_last_load(batches: Sequence[CommitRecord], *, or_move: bool = False) -> Sequence[CommitRecord]:
    """The batches from the last one at which readers drop what they hold; all if there is none.

    With ``or_move`` from the last placing of the cursor, too: earlier changes have no end state to compare with.
    """
    starts = [
        index
        for index, batch in enumerate(batches)
        if batch.after_snapshot_id is None or (or_move and batch.outcome is BatchOutcome.CURSOR_SET)
    ]
    return batches[starts[-1] :] if starts else batches


def committed_batches(session: PipelineSession) -> list[CommitRecord]:
    """Commit records of all batches, by number."""
    checkpoint = session.checkpoint
    cursor = checkpoint.look().cursor
    numbers = range(0 if cursor is None else cursor.batch_number + 1)
    commits = [(number, checkpoint.committed(number)) for number in numbers]
    for number, commit in commits:
        if commit is None:
            raise TerminalError(
                f"the commit record of batch {number} is gone from the checkpoint {checkpoint.url}, though later "
                "batches are committed: restore it",
                batch_number=number,
            )
    return [commit for _, commit in commits if commit is not None]


def delivered_shape(
    session: PipelineSession, schema: TableSchema, identity: Identity, *, filter_text: str | None = None
) -> RowShape:
    """Shape of delivered rows in a schema. A filter replaces the pipeline's."""
    pipeline = session.pipeline
    return RowShape.of(
        schema,
        identity=identity,
        columns=pipeline.columns,
        filter_text=filter_text or pipeline.filter,
        filter_as_written=None if filter_text else pipeline.as_written.filter,
        table=pipeline.table,
    )


def rows_at(session: PipelineSession, snapshot_id: int, *, filter_text: str) -> Iterator[pa.RecordBatch]:
    """The rows of the table at a snapshot that pass a filter, in the delivered columns."""
    schema = TableSchema.at(session.table.metadata, snapshot_id, after_snapshot_id=None)
    shape = delivered_shape(session, schema, Identity(policy="none"), filter_text=filter_text)
    yield from TableState.at(session, shape, snapshot_id).rows()


_PENDING_ROWS: Final = 1 << 22
_READ_AT_ONCE_BYTES: Final = 256 << 20
"""Delete files are read once for about so many bytes of data files."""


class Replay:
    """Adds up weighted rows by row hash. The rows left at the end are the difference."""

    def __init__(self, hash_slice: HashSlice | None = None) -> None:
        # Some 24 bytes for each row that has not cancelled. Larger tables take a replay of all rows for each slice.
        self._slice = hash_slice or HashSlice()
        self._hashes = RowHashes.concat([])
        self._weights = np.zeros(0, np.int64)
        self._pending: list[tuple[RowHashes, NDArray[np.int64]]] = []
        self._pending_rows = 0

    def add(self, hashes: RowHashes, weights: NDArray[np.int64]) -> None:
        """Adds rows; both have one length."""
        if not self._slice.is_whole:
            rows = self._slice.positions(hashes)
            hashes, weights = hashes.take(rows), weights[rows]
        self._pending.append((hashes, weights))
        self._pending_rows += len(hashes)
        # Once there are as many new rows as held ones, so that each row is sorted a few times, not once for each batch.
        if self._pending_rows > max(_PENDING_ROWS, len(self._hashes)):
            self._consolidate()

    def differing_rows(self) -> int:
        """Rows that did not cancel, each as often as it is too many or missing."""
        self._consolidate()
        return int(np.abs(self._weights).sum())

    def _consolidate(self) -> None:
        hashes = RowHashes.concat([self._hashes, *(each for each, _ in self._pending)])
        weights = np.concatenate([self._weights, *(each for _, each in self._pending)])
        positions, self._weights = consolidate(hashes, np.zeros(len(hashes), np.int32), weights)
        self._hashes = hashes.take(positions)
        self._pending, self._pending_rows = [], 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """The files of the table's rows at a snapshot."""

    table: LoadedTable
    shape: RowShape
    snapshot_id: int | None
    files: ScanPlan
    memory_bytes: int

    @classmethod
    def at(
        cls, session: PipelineSession, shape: RowShape, snapshot_id: int | None, load_part: LoadPart | None = None
    ) -> Self:
        """The state at a snapshot, or a part of it; None: before the first snapshot, without a row."""
        table, files = session.table, ScanPlan(tasks=())
        if snapshot_id is not None:
            load = Step.of(StepKind.INITIAL, [snapshot_id], timestamp_ms=0)
            files = ScanPlan.of(table, [replace(load, load_part=load_part)])
        memory_bytes = session.pipeline.shuffle.memory_bytes
        return cls(table=table, shape=shape, snapshot_id=snapshot_id, files=files, memory_bytes=memory_bytes)

    @property
    def record_count(self) -> int:
        """Number of rows."""
        return self.files.record_count

    def key_bounds(self, column: str) -> Iterator[FileKeys]:
        """Of each data file the smallest and the largest value of a column, if known, and its rows."""
        field_id = self.shape.delivered.field_ids[column]
        for task in self.files.tasks:
            bounds: Any = task.bounds(self.shape.delivered).get(field_id)
            yield bounds, task.data_file.record_count

    def within(self, keys: KeyRange) -> Self:
        """The state without files that have no row in a range."""
        if keys.first is None and not self.shape.delivered.columns.find_field(keys.column).required:
            return self  # bounds do not tell of nulls
        pairs = zip(self.files.tasks, self.key_bounds(keys.column), strict=True)
        tasks = tuple(task for task, (bounds, _) in pairs if bounds is None or keys.may_have(*bounds))
        return replace(self, files=replace(self.files, tasks=tasks))

    def add_to(self, replay: Replay, *, sign: int) -> None:
        """Adds every row, or takes it away if ``sign`` is -1."""
        for batch, touched, weight in self._weighted_rows(self._reader()):
            hashes = RowHashes.of_batch(batch, key=self.shape.hash_key).take(touched)
            replay.add(hashes, np.full(len(touched), sign * weight, np.int64))

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Every row once, as compared rows with text decoded."""
        reader = self._reader()
        for batch, touched, _ in self._weighted_rows(reader):
            yield reader.plain(batch if len(touched) == batch.num_rows else batch.take(pa.array(touched)))

    def _reader(self) -> TableRowReader:
        return TableRowReader(shape=self.shape, files=FileReader(io=self.table.io, table=self.table.name))

    def _weighted_rows(self, reader: TableRowReader) -> Iterator[tuple[pa.RecordBatch, NDArray[np.int64], int]]:
        """Read rows, the places of those in the state, and their weight."""
        for file in self._file_effects(reader.files):
            for rows in reader.read(file):
                for effect in file.effects:
                    yield rows.batch, effect.rows.among(rows.positions), effect.weight

    def _file_effects(self, reader: FileReader) -> Iterator[FileEffects]:
        schemas = self.files.equality_schemas(self.table, [self.snapshot_id])
        planned = [PlannedFile(task=task, bounds={}) for task in self.files.tasks]
        for map_id, tasks in enumerate(map_tasks(planned, map_task_bytes=_READ_AT_ONCE_BYTES)):
            yield from task_file_effects(
                map_task_document(map_id, tasks, self.files.delete_files),
                equality_schemas=schemas,
                reader=reader,
                memory_bytes=self.memory_bytes,
            )
