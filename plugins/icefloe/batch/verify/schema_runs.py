"""Committed batches, in runs that can be replayed at once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from icefloe.batch.context.session import PipelineSession
from icefloe.checkpoint.ending import BatchOutcome
from icefloe.checkpoint.records import CommitRecord
from icefloe.errors import TerminalError
from icefloe.iceberg.history.history import History
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.iceberg.step import LoadPart
from icefloe.iceberg.table import Table

__all__ = ["found_batches"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRun:
    """Batches of one schema."""

    schema: TableSchema
    batches: Sequence[CommitRecord]

    @property
    def after_snapshot_id(self) -> int | None:
        """State before the first batch; None: no rows."""
        return self.batches[0].after_snapshot_id

    @property
    def up_to_snapshot_id(self) -> int | None:
        return self.batches[-1].up_to_snapshot_id

    @property
    def load_part(self) -> LoadPart | None:
        """Delivered part of that state, if the load goes on in the next batch; otherwise None."""
        part = self.batches[-1].end.load_part
        return None if part is None else part.with_earlier


def since_last_start(batches: Sequence[CommitRecord]) -> Sequence[CommitRecord]:
    """Since the last load or placing of the cursor: earlier changes have no end state to compare with."""
    starts = [
        index
        for index, batch in enumerate(batches)
        if batch.after_snapshot_id is None or batch.outcome is BatchOutcome.CURSOR_SET
    ]
    return batches[starts[-1] :] if starts else batches


def since_last_load(batches: Sequence[CommitRecord]) -> Sequence[CommitRecord]:
    """The batches from the last one at which readers drop what they hold; all if there is none."""
    begun = [index for index, batch in enumerate(batches) if batch.after_snapshot_id is None]
    return batches[begun[-1] :] if begun else batches


def schema_runs(table: Table, batches: Sequence[CommitRecord]) -> list[SchemaRun]:
    """A first batch that only placed the cursor is in no run. If a snapshot expired, the next batch's schema counts."""
    only_places_cursor = batches and batches[0].steps == 0 and batches[0].after_snapshot_id is None
    found: list[SchemaRun] = []
    # From the last one back: a batch whose snapshot expired takes the schema of the batch after it.
    for batch in reversed(batches[1:] if only_places_cursor else batches):
        following = found[-1] if found else None
        schema = _schema_after(table, batch)
        if following is not None and (schema is None or _fields(schema) == _fields(following.schema)):
            found[-1] = SchemaRun(schema=following.schema, batches=(batch, *following.batches))
        else:
            found.append(SchemaRun(schema=schema or _schema(table, batch), batches=(batch,)))
    return found[::-1]


def _schema_after(table: Table, batch: CommitRecord) -> TableSchema | None:
    """None if the snapshot expired."""
    snapshot_id = batch.up_to_snapshot_id
    is_there = snapshot_id is None or snapshot_id in History.of(table).snapshots
    return _schema(table, batch) if is_there else None


def _schema(table: Table, batch: CommitRecord) -> TableSchema:
    return TableSchema.at(table.metadata, batch.up_to_snapshot_id, after_snapshot_id=batch.after_snapshot_id)


def _fields(schema: TableSchema) -> object:
    return schema.schema_json["fields"]


def found_batches(session: PipelineSession) -> tuple[PipelineSession, list[CommitRecord]]:
    """The session and `committed_batches`, by the present ids of their snapshots.

    See `LoadedTable.found`: an id that was used again names two states, of which the earlier one has the negative id.
    """
    found: list[CommitRecord] = []
    before: tuple[int | None, int | None] = None, None
    for batch in committed_batches(session):
        session, end = session.with_cursor(batch.end)
        after_id = before[1] if batch.after_snapshot_id == before[0] else batch.after_snapshot_id
        if batch.outcome is not BatchOutcome.DELIVERED and batch.after_snapshot_id == batch.up_to_snapshot_id:
            after_id = end.snapshot_id
        up_to_id, snapshot = end.snapshot_id, end.snapshot
        ending = replace(batch.ending, cursor=replace(batch.end, snapshot_id=up_to_id, snapshot=snapshot))
        found.append(replace(batch, after_snapshot_id=after_id, ending=ending))
        before = batch.up_to_snapshot_id, end.snapshot_id
    return session, found


def committed_batches(session: PipelineSession) -> list[CommitRecord]:
    """Commit records of all batches, by number."""
    checkpoint = session.checkpoint
    cursor = checkpoint.cursor()
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
