"""The changelog of a table: each batch appends its changes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.parser import parse
from pyiceberg.io.pyarrow import ArrowScan, _to_requested_schema
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema, index_by_id
from pyiceberg.table import FileScanTask, Table, Transaction
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.types import IcebergType, ListType, LongType, MapType, NestedField, StructType

from icefloe.changes.columns import ChangeColumns
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import ProvenBatch, StagedPart, named_columns
from icefloe.sinks.iceberg.table_sink import BATCH, TableSink, delete_all, has_rows, trace_of
from icefloe.sinks.iceberg.target import Token, pyiceberg_errors
from icefloe.sinks.iceberg.target_files import WrittenFiles
from icefloe.sinks.iceberg.target_schema import optional
from icefloe.sinks.sink import PartDelivery, SchemaOf


class ChangelogSink(TableSink):
    """Appends all changes of a batch as rows with the change columns."""

    keyed: ClassVar[bool] = False
    keeps_written_columns: ClassVar[bool] = True
    finds_keys: ClassVar[bool] = False

    def read_back(self, schema: pa.Schema, *, keys: pa.RecordBatch | None = None) -> Iterator[pa.RecordBatch]:
        """The changes since the last load, in order; holds the changes of one batch."""
        for rows in self.read_back_as_written(lambda _number: schema):
            yield rows if keys is None else with_keys_of(rows, keys)

    def read_back_as_written(
        self,
        schema_of: SchemaOf,
        *,
        first_batch: int = 0,
        keys: pa.RecordBatch | None = None,  # noqa: ARG002 - their columns may have had other names
    ) -> Iterator[pa.RecordBatch]:
        """The same, each batch in its own columns."""
        table = self._target.find()
        token = None if table is None else Token.of(table, self.url)
        if table is not None and token is not None and token.last is not None:
            first = max(first_batch, token.last.load)
            with pyiceberg_errors(self.url, "read"):
                yield from read_changelog(table, token, schema_of, first=first, last=token.last.number)

    def may_lack_oldest(self) -> bool:
        """False: a table drops no rows by itself."""
        return False

    def may_lack_replaced(self) -> bool:
        """False, for the same reason."""
        return False

    def _columns(self, batch: ProvenBatch) -> pa.Schema:
        return batch.given_schema

    def _replayed(self, batch: ProvenBatch, table: Table, token: Token, part: StagedPart) -> PartDelivery | None:  # noqa: ARG002
        count = table.scan(row_filter=in_batches(batch.batch_number, batch.batch_number)).count()
        given = sum(rows.num_rows for rows in part.read())
        if 0 < count < given:
            raise TerminalError(
                f"{self.url} holds {count} of the {given} changes of batch {batch.batch_number}: delete these "
                "rows, and deliver the batch once more"
            )
        if given and not count:
            return None
        return PartDelivery(number=part.number, rows=part.rows, documents=part.rows, repeated=part.rows)

    def _stage(
        self, transaction: Transaction, token: Token, batch: ProvenBatch, part: StagedPart, files: WrittenFiles
    ) -> str:
        schema = optional(self._columns(batch))
        before = 1 if token.last is None else token.last.generation
        if token.generation > before and has_rows(transaction._table):  # noqa: SLF001
            # Batches of the owner before may have the same numbers.
            delete_all(transaction)

        def rows() -> Iterator[pa.RecordBatch]:
            for changes in part.read():
                yield with_schema(batch.given_rows(changes).columns, schema)

        with transaction._append_snapshot_producer(trace_of(token, batch)) as append:  # noqa: SLF001 - as the table's settings want it
            for file in files.of(transaction, rows):
                append.append_data_file(file)
        return MAIN_BRANCH


def with_schema(columns: list[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """Rows in the types of a schema."""
    return pa.RecordBatch.from_arrays(
        [column.cast(each.type) for column, each in zip(columns, schema, strict=True)], schema=schema
    )


def with_keys_of(rows: pa.RecordBatch, keys: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with some keys."""
    return rows.filter(RowHashes.among(named_columns(rows, keys.schema.names), keys.columns))


def read_changelog(
    table: Table, token: Token, schema_of: SchemaOf, *, first: int, last: int
) -> Iterator[pa.RecordBatch]:
    """The changes of some batches in order; files whose batches overlap, as after a compaction, are read together."""
    wanted = in_batches(first, last)
    scan = ArrowScan(table.metadata, table.io, table.schema(), wanted)
    written = _Written(table, token)
    for tasks in _neighbours(table, list(table.scan(row_filter=wanted).plan_files())):
        rows = scan.to_table(tasks).combine_chunks()
        numbers = rows.column(ChangeColumns.BATCH)
        for number in sorted(pc.unique(numbers).to_pylist()):
            schema = schema_of(number)
            for batch in _in_order(rows.filter(pc.equal(numbers, number))).to_batches():
                yield written.rows(batch, number, schema)


def in_batches(first: int, last: int) -> BooleanExpression:
    """A filter for the changes of these batches."""
    return parse(f"{ChangeColumns.BATCH} >= {first} and {ChangeColumns.BATCH} <= {last}")


def _neighbours(table: Table, tasks: Sequence[FileScanTask]) -> Iterator[list[FileScanTask]]:
    """Tasks whose ranges of batches overlap, in the order of the batches."""
    held, end = list[FileScanTask](), -1
    for low, high, task in sorted(((*_batches(table, each.file), each) for each in tasks), key=lambda each: each[:2]):
        if held and low > end:
            yield held
            held = []
        held, end = [*held, task], max(end, high)
    if held:
        yield held


def _batches(table: Table, file: DataFile) -> tuple[int, int]:
    """The numbers of the first and the last batch in a file; without bounds it may have any."""
    column = table.schema().find_field(ChangeColumns.BATCH).field_id
    low, high = ((bounds or {}).get(column) for bounds in (file.lower_bounds, file.upper_bounds))
    if low is None or high is None:
        return 0, np.iinfo(np.int64).max
    return int(from_bytes(LongType(), low)), int(from_bytes(LongType(), high))


def _in_order(changes: pa.Table) -> pa.Table:
    """By ordinal, rows before a change before those after it; the sort is stable."""
    after = pa.chunked_array([ChangeColumns.weights(batch) for batch in changes.to_batches()], pa.int64())
    keys = pa.table({"ordinal": changes.column(ChangeColumns.ORDINAL), "after": after})
    return changes.take(pc.sort_indices(keys, sort_keys=[("ordinal", "ascending"), ("after", "ascending")]))


class _Written:
    """Columns by the names that they had when they were written."""

    def __init__(self, table: Table, token: Token) -> None:
        self._now = table.schema()
        self._schemas = table.metadata.schemas
        self._recorded = token.schemas
        summaries = [(each.schema_id, each.summary) for each in table.metadata.snapshots if each.summary is not None]
        self._ids = {summary.additional_properties.get(BATCH): schema_id for schema_id, summary in summaries}

    def rows(self, rows: pa.RecordBatch, number: int, schema: pa.Schema) -> pa.RecordBatch:
        """The changes of a batch in its columns."""
        names = {each.field_id: each.name for each in index_by_id(self._schema(number)).values()}
        found = _to_requested_schema(Schema(*_named(self._now.as_struct(), names).fields), self._now, rows)
        return pa.RecordBatch.from_arrays(
            [
                found.column(each.name).cast(each.type)
                if each.name in found.schema.names
                else pa.nulls(rows.num_rows, each.type)
                for each in schema
            ],
            schema=schema,
        )

    def _schema(self, number: int) -> Schema:
        """The target's schema when a batch came, by its last snapshot; if that has expired, as the token says."""
        earlier = [each for each in self._recorded if each <= number]
        schema_id = self._ids.get(str(number), self._recorded[max(earlier)] if earlier else None)
        return next((each for each in self._schemas if each.schema_id == schema_id), self._now)


def _named(struct: StructType, names: Mapping[int, str]) -> StructType:
    """The same fields by the names that they had; those that came later are left out."""
    return StructType(
        *(
            NestedField(each.field_id, names[each.field_id], _named_inside(each.field_type, names))
            for each in struct.fields
            if each.field_id in names
        )
    )


def _named_inside(kind: IcebergType, names: Mapping[int, str]) -> IcebergType:
    if isinstance(kind, ListType):
        return ListType(kind.element_id, _named_inside(kind.element_type, names), element_required=False)
    if isinstance(kind, MapType):
        value = _named_inside(kind.value_type, names)
        return MapType(kind.key_id, kind.key_type, kind.value_id, value, value_required=False)
    return _named(kind, names) if isinstance(kind, StructType) else kind
