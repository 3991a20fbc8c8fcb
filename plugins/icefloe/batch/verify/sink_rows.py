"""The rows that a sink holds, and those that it should hold."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.rows.row_shape import RowShape
from icefloe.batch.verify.delivery_findings import KeyedRows
from icefloe.batch.verify.key_ranges import KeyRange
from icefloe.batch.verify.table_state import Replay, TableState, committed_batches, since_last_load
from icefloe.changes.columns import ChangeColumns
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.checkpoint.records import OffsetRecord
from icefloe.errors import TerminalError, TransientError, one_line
from icefloe.iceberg.schemas.column_paths import IdentifierColumns
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.sinks.sink import Sink

__all__ = ["WrittenColumns"]


class WrittenColumns:
    """Reads logs in the schemas of their batches, which the checkpoint records.

    Args:
        delivered: delivered columns of the table now.
        first_batch: changes of earlier batches are left out.
    """

    def __init__(self, session: PipelineSession, delivered: TableSchema, *, first_batch: int) -> None:
        self._session, self._delivered, self._first_batch = session, delivered, first_batch
        self._schemas: dict[int, TableSchema] = {}

    @classmethod
    def since_last_load(cls, session: PipelineSession, delivered: TableSchema) -> Self:
        """Reads from the last batch at which readers drop what they hold."""
        return cls(session, delivered, first_batch=since_last_load(committed_batches(session))[0].batch_number)

    def read(self, sink: Sink, *, keys: pa.RecordBatch | None = None) -> Iterator[pa.RecordBatch]:
        """The changes that a log holds since the first batch, in the table's present columns.

        Args:
            keys: identifier columns of the only rows to be read; None: all.
        """
        if not sink.keeps_written_columns:
            yield from sink.read_back(ChangeColumns.schema(self._delivered.arrow, with_batch=True), keys=keys)
            return
        found = sink.read_back_as_written(self._arrow_schema, first_batch=self._first_batch, keys=keys)
        for rows in found:
            if rows.num_rows:
                present = self.present(rows, rows.column(ChangeColumns.BATCH)[0].as_py())
                yield present if keys is None or sink.finds_keys else self._of_keys(present, keys)

    def present(self, rows: pa.RecordBatch, number: int) -> pa.RecordBatch:
        """Changes of a batch in the table's present columns."""
        written, schema = self._schema(number), ChangeColumns.schema(self._delivered.arrow, with_batch=True)
        # Equal names do not suffice: a name may have gone from one column to another.
        if written.columns == self._delivered.columns and rows.schema.equals(schema):
            return rows
        names = [name for name in rows.schema.names if name not in ChangeColumns.ALL]
        try:
            columns = self._delivered.rows_of(written, rows.select(names))
        except (TerminalError, pa.ArrowException) as cause:
            name = self._session.pipeline.name
            raise TerminalError(
                f"batch {number} of {name} holds changes that no longer fit the columns of the table "
                f"({one_line(cause)}): it went back to an earlier schema; icefloe reset {name} loads it again",
                batch_number=number,
            ) from cause
        changes = [rows.column(name) for name in schema.names if name in ChangeColumns.ALL]
        return pa.RecordBatch.from_arrays([*changes, *columns.columns], schema=schema)

    def _of_keys(self, rows: pa.RecordBatch, keys: pa.RecordBatch) -> pa.RecordBatch:
        named = IdentifierColumns.named(self._delivered.columns, keys.schema.names)
        return rows.filter(RowHashes.among(named.values(rows), keys.columns))

    def _arrow_schema(self, number: int) -> pa.Schema:
        return ChangeColumns.schema(self._schema(number).arrow, with_batch=True)

    def _schema(self, number: int) -> TableSchema:
        if number not in self._schemas:
            offset = self._session.checkpoint.known_offset(number)
            schema, selected = self._schema_at(offset), offset.selected_columns
            self._schemas[number] = schema if selected is None else schema.select(selected)
        return self._schemas[number]

    def _schema_at(self, offset: OffsetRecord) -> TableSchema:
        """The table's schema in a batch, also if its snapshot has expired."""
        metadata, spec, recorded = self._session.table.metadata, offset.spec, offset.ending.cursor.snapshot
        snapshot = None if recorded is None else metadata.snapshot_by_id(recorded.snapshot_id)
        if recorded is not None and recorded.schema_id is None and snapshot is None:
            # Snapshots of old writers name no schema: theirs is the table's own.
            return TableSchema.at(metadata, None)
        if recorded is None or recorded.schema_id is None or (snapshot is not None and recorded.is_same(snapshot)):
            return TableSchema.at(metadata, spec.up_to_snapshot_id, after_snapshot_id=spec.after_snapshot_id)
        schemas = {schema.schema_id: schema for schema in metadata.schemas}
        name, number = self._session.pipeline.name, offset.batch_number
        if recorded.schema_id > max(schemas):
            raise TransientError(f"batch {number} of {name} has new columns, and came meanwhile: run again")
        if recorded.schema_id not in schemas:
            raise TerminalError(
                f"batch {number} of {name} has the columns of schema {recorded.schema_id}, which is no longer in the "
                "table's metadata: it can no longer be verified",
                batch_number=number,
            )
        # The range may have begun in a later schema, to which the table did not stay.
        began = offset.follows.snapshot if offset.follows is not None else None
        latest = max(recorded.schema_id, recorded.schema_id if began is None else began.schema_id or 0)
        others = [schema for schema_id, schema in schemas.items() if schema_id <= latest]
        return TableSchema.covering(schemas[recorded.schema_id], others, metadata.name_mapping())


_LIVE: Final = pa.array(["INSERT", "UPDATE_AFTER"])


class SinkRows:
    """Reads a sink, and a state of the table in the same form."""

    def __init__(self, sink: Sink, shape: RowShape, written: WrittenColumns, *, first_batch: int) -> None:
        # The shape is that of delivered rows, without an identity that the sink hides. Earlier batches do not count.
        self.sink, self.shape, self.written, self.first_batch = sink, shape, written, first_batch
        self.names = [] if shape.is_identity_carried else list(shape.identity.names)  # dotted
        self.retained: Counter[int] = Counter()  # changes by batch in the last whole reading of a log

    @property
    def has_keys(self) -> bool:
        """True if rows can be compared by key."""
        return bool(self.names)

    def of_sink(
        self, folder: Path, *, rows: int, keys: pa.RecordBatch | None = None, within: KeyRange | None = None
    ) -> KeyedRows:
        """Rows or changes of the sink by key."""
        held = KeyedRows(folder, rows=rows, names=self.names)
        for batch in self._read(keys, within):
            is_live = None if self.sink.keyed else pc.is_in(batch.column(ChangeColumns.TYPE), _LIVE)
            held.add(self._keys(batch), self._hashes(batch), self.shape.identity_of(batch), is_live)
        return held

    def of_table(
        self,
        state: TableState,
        folder: Path,
        *,
        rows: int,
        keys: pa.Array | None = None,
        within: KeyRange | None = None,
    ) -> KeyedRows:
        """Rows of a state by key."""
        wanted = KeyedRows(folder, rows=rows, names=self.names)
        for found in state.rows() if within is None else state.within(within).rows():
            batch = found if within is None else found.filter(within.among(found.column(within.column)))
            hashes = self._keys(batch)
            if keys is None:
                wanted.add(hashes, self._hashes(batch), self.shape.identity_of(batch))
                continue
            places = np.flatnonzero(pc.is_in(hashes.to_column(), keys).to_numpy(zero_copy_only=False))
            if len(places):
                chosen = batch.take(pa.array(places))
                wanted.add(hashes.take(places), self._hashes(chosen), self.shape.identity_of(chosen))
        return wanted

    def difference(self, state: TableState) -> int:
        """Rows missing or in excess, counted without keys; a log must retain all changes."""
        replay = Replay()
        for batch in self._read():
            weights = np.ones(batch.num_rows, np.int64)
            if not self.sink.keyed:
                is_live = pc.is_in(batch.column(ChangeColumns.TYPE), _LIVE).to_numpy(zero_copy_only=False)
                weights = np.where(is_live, 1, -1).astype(np.int64)
            replay.add(self._hashes(batch), weights)
        for batch in state.rows():
            replay.add(self._hashes(batch), np.full(batch.num_rows, -1, np.int64))
        return replay.differing_rows()

    def _read(self, keys: pa.RecordBatch | None = None, within: KeyRange | None = None) -> Iterable[pa.RecordBatch]:
        columns, is_keyed = self.shape.delivered.arrow, self.sink.keyed
        schema = columns if is_keyed else ChangeColumns.schema(columns, with_batch=True)
        self.retained = Counter()
        found = self.sink.read_back(schema, keys=keys) if is_keyed else self.written.read(self.sink, keys=keys)
        if within is not None:
            found = self.sink.read_range(schema, within.column, first=within.first, stop=within.stop)
        for batch in found:
            if not batch.schema.equals(schema):
                raise TerminalError(
                    f"{self.sink.url} is read back with other columns than the table has ({batch.schema.names} instead "
                    f"of {schema.names}); update the package of the sink",
                    url=self.sink.url,
                )
            if is_keyed:
                yield batch
                continue
            recent = batch.filter(pc.greater_equal(batch.column(ChangeColumns.BATCH), self.first_batch))
            self.retained.update(recent.column(ChangeColumns.BATCH).to_pylist())
            yield recent

    def _keys(self, batch: pa.RecordBatch) -> RowHashes:
        return RowHashes.of(self.shape.identity_of(batch), key=self.shape.hash_key)

    def _hashes(self, batch: pa.RecordBatch) -> RowHashes:
        return RowHashes.of_batch(batch, self.shape.delivered.arrow.names, key=self.shape.hash_key)
