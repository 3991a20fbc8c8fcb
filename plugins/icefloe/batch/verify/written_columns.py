"""The columns that a log has from each batch, and those of the table now."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import pyarrow as pa
from pyarrow.types import is_map

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.verify.schema_runs import committed_batches, schema_runs, since_last_load
from icefloe.changes.columns import BATCH, CHANGE_COLUMNS, change_schema
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.checkpoint.records import CommitRecord
from icefloe.errors import IcefloeError, TerminalError, TransientError, one_line
from icefloe.iceberg.schemas.column_paths import identity_columns, resolve_identifier_columns
from icefloe.iceberg.schemas.projection import rows_in_schema
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.sinks.sink import Sink

__all__ = ["WrittenColumns"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnNames:
    """The names of a schema, dotted inside of structs; below ``maps``, names are keys."""

    names: frozenset[str]
    maps: tuple[str, ...]

    @classmethod
    def of(cls, fields: Iterable[pa.Field]) -> Self:
        """The names of a schema."""
        kinds = dict(_kinds(fields, ""))
        return cls(names=frozenset(kinds), maps=tuple(f"{name}." for name, kind in kinds.items() if is_map(kind)))

    def have(self, names: Sequence[str]) -> bool:
        """True if a value with these names fits."""
        return all(name in self.names or name.startswith(self.maps) for name in names)

    def have_others(self, names: Sequence[str]) -> bool:
        """True if a value with these names lacks some next to them."""
        seen = {name.rpartition(".")[0] for name in names}
        return any(name.rpartition(".")[0] in seen for name in self.names - set(names))


def _kinds(fields: Iterable[pa.Field], prefix: str) -> Iterator[tuple[str, pa.DataType]]:
    for field in fields:
        kind = field.type
        while pa.types.is_list(kind) or pa.types.is_large_list(kind):
            kind = kind.value_type
        yield f"{prefix}{field.name}", kind
        if pa.types.is_struct(kind):
            yield from _kinds(kind, f"{prefix}{field.name}.")


class WrittenColumns:
    """Reads logs in the schemas of their batches.

    A batch has the schema of its last snapshot. If that expired: the schema of the next batch or the newest of the
    table that has exactly the columns found, or the first that has more.

    Args:
        batches: since the last start, by number.
        delivered: delivered columns of the table now.
    """

    def __init__(self, session: PipelineSession, batches: Sequence[CommitRecord], delivered: TableSchema) -> None:
        self._session, self._batches, self._delivered = session, batches, delivered
        self._first_batch = batches[0].batch_number

    @classmethod
    def since_last_load(cls, session: PipelineSession, delivered: TableSchema) -> Self:
        """Reads from the last batch at which readers drop what they hold."""
        return cls(session, since_last_load(committed_batches(session)), delivered)

    def read(self, sink: Sink, *, keys: pa.RecordBatch | None = None) -> Iterator[pa.RecordBatch]:
        """The changes that a log holds since the first batch, in the table's present columns.

        Args:
            keys: identifier columns of the only rows to be read; None: all.
        """
        if not sink.keeps_written_columns:
            yield from sink.read_back(change_schema(self._delivered.arrow, with_batch=True), keys=keys)
            return
        found = sink.read_back_as_written(self._arrow_schema, first_batch=self._first_batch, keys=keys)
        for rows in found:
            if rows.num_rows:
                present = self._in_present_columns(rows)
                yield present if keys is None or sink.finds_keys else self._of_keys(present, keys)

    def _in_present_columns(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        number: int = rows.column(BATCH)[0].as_py()
        names = [name for name in rows.schema.names if name not in CHANGE_COLUMNS]
        found = ColumnNames.of(field for field in rows.schema if field.name in names)
        written, schema = (
            self._schema(number, sorted(found.names)),
            change_schema(self._delivered.arrow, with_batch=True),
        )
        # Equal names do not suffice: a name may have gone from one column to another.
        if written.columns == self._delivered.columns and rows.schema.equals(schema):
            return rows
        try:
            columns = rows_in_schema(rows.select(names), written, self._delivered)
        except (TerminalError, pa.ArrowException) as cause:
            name = self._session.pipeline.name
            raise TerminalError(
                f"batch {number} of {name} holds changes that no longer fit the columns of the table "
                f"({one_line(cause)}): it went back to an earlier schema; icefloe reset {name} loads it again",
                batch_number=number,
            ) from cause
        changes = [rows.column(name) for name in CHANGE_COLUMNS]
        return pa.RecordBatch.from_arrays([*changes, *columns.columns], schema=schema)

    def _of_keys(self, rows: pa.RecordBatch, keys: pa.RecordBatch) -> pa.RecordBatch:
        paths = resolve_identifier_columns(self._delivered.columns, keys.schema.names)
        return rows.filter(RowHashes.among(identity_columns(rows, paths), keys.columns))

    def _arrow_schema(self, number: int, names: Sequence[str]) -> pa.Schema:
        return change_schema(self._schema(number, names).arrow, with_batch=True)

    def _schema(self, number: int, names: Sequence[str]) -> TableSchema:
        own = self._by_batch.get(number)
        schemas = [*([] if own is None else [own]), *self._known]
        fitting = [schema for schema in schemas if ColumnNames.of(schema.arrow).have(names)]
        exact = [schema for schema in fitting if not ColumnNames.of(schema.arrow).have_others(names)]
        if fitting:
            return (exact or fitting)[0]
        name = self._session.pipeline.name
        if number > self._batches[-1].batch_number:
            raise TransientError(
                f"batch {number} of {name} has new columns, and came while others were read: run again"
            )
        raise TerminalError(
            f"batch {number} of {name} has other columns than later batches, and the snapshot with its schema has "
            "expired: it can no longer be verified",
            batch_number=number,
        )

    @cached_property
    def _by_batch(self) -> dict[int, TableSchema]:
        runs = schema_runs(self._session.table, self._batches)
        schemas = [(run, self._selected(run.schema)) for run in runs]
        return {batch.batch_number: schema for run, schema in schemas if schema for batch in run.batches}

    @cached_property
    def _known(self) -> list[TableSchema]:
        """The table's schemas, the newest first."""
        former = (self._former(number) for number in range(len(self._session.table.metadata.schemas) - 1, -1, -1))
        return [self._delivered, *(schema for schema in former if schema is not None)]

    def _former(self, place: int) -> TableSchema | None:
        try:
            return self._selected(TableSchema.of(self._session.table.metadata.schemas[place]))
        except IcefloeError:
            return None  # a type that this release cannot read: no batch was delivered in it

    def _selected(self, schema: TableSchema) -> TableSchema | None:
        """The delivered columns; None if one is missing, so that nothing was delivered in the schema."""
        columns = self._session.pipeline.columns
        try:
            return schema if columns is None else schema.select(columns)
        except TerminalError:
            return None
