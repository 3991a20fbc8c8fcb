"""Tables with rows by key: a mirror and a history find the rows that a batch removes, and load all rows at once."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    GreaterThanOrEqual,
    IsNull,
    LessThan,
    Or,
    Reference,
)
from pyiceberg.expressions.literals import literal
from pyiceberg.io.pyarrow import ArrowScan, _read_all_delete_files
from pyiceberg.manifest import DataFile
from pyiceberg.table import Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import RemoveSnapshotRefUpdate

from icefloe.changes.columns import plain_rows
from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch, column_path, named_columns
from icefloe.sinks.iceberg.changelog import with_keys_of
from icefloe.sinks.iceberg.table_sink import TableSink, append_files, delete_all, has_rows
from icefloe.sinks.iceberg.target import LOAD_BRANCH, Token, pyiceberg_errors, ref_update
from icefloe.sinks.iceberg.target_rows import FoundRows, TargetRows
from icefloe.sinks.sink import refuse_load, refuse_lone_replay

_SHOWN_CHARACTERS: Final = 100


class KeyedTableSink(TableSink):
    """A table whose rows have keys.

    Attributes:
        noun: of the table, in sentences.
        shown: the rows that are equal to those of the source.
    """

    keyed: ClassVar[bool] = True
    reads_ranges: ClassVar[bool] = True
    noun: ClassVar[str]
    shown: ClassVar[BooleanExpression] = AlwaysTrue()
    properties: ClassVar[Mapping[str, str]] = {
        f"write.{operation}.mode": "merge-on-read" for operation in ("delete", "update", "merge")
    }

    def read_back(self, schema: pa.Schema, *, keys: pa.RecordBatch | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of main."""
        for rows in self._read(schema, self.shown):
            yield rows if keys is None else with_keys_of(rows, keys)

    def last_batch(self, origin: Origin) -> int | None:
        """The number in the token."""
        table = self._target.load()
        token = Token.of(table, self.url)
        if token is None:
            return None
        self._refuse_other(origin, token)
        refuse_load(self.url, is_loading=token.last is not None and token.last.is_loading)
        return token.last.number if token.last is not None and token.last.generation == token.generation else None

    def read_range(
        self, schema: pa.Schema, column: str, *, first: int | None, stop: int | None
    ) -> Iterator[pa.RecordBatch]:
        """Rows of main; files are ruled out by their bounds."""
        key = Reference(column)
        within: BooleanExpression = AlwaysTrue()
        if first is not None:
            within = And(within, GreaterThanOrEqual(term=key, value=literal(first)))
        if stop is not None:
            within = And(within, LessThan(term=key, value=literal(stop)))
        yield from self._read(schema, And(self.shown, Or(within, IsNull(term=key)) if first is None else within))

    def _read(self, schema: pa.Schema, row_filter: BooleanExpression) -> Iterator[pa.RecordBatch]:
        table = self._target.find()
        if table is None or not table.schema().fields:
            return
        names = [name for name in schema.names if name in table.schema().column_names]
        scan = table.scan(row_filter=row_filter, selected_fields=tuple(names))
        with pyiceberg_errors(self.url, "read"):
            reader = ArrowScan(table.metadata, table.io, scan.projection(), row_filter)
            for task in scan.plan_files():
                # The public ways read all files at once, and hold them.
                deletes = _read_all_delete_files(table.io, [task])
                for rows in reader._record_batches_from_scan_tasks_and_deletes([task], deletes):  # noqa: SLF001
                    columns = [
                        rows.column(each.name).cast(each.type)
                        if each.name in names
                        else pa.nulls(rows.num_rows, each.type)
                        for each in schema
                    ]
                    yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def _refuse_batch(self, batch: ProvenBatch) -> None:
        if not batch.identity and not self.takes_whole_rows:
            raise TerminalError(
                f"{self.url} is a {self.noun}, which finds rows by their key, and table {batch.origin.table} has no "
                "identifier columns; set identifier_columns in the pipeline"
            )

    def _evolved(self, transaction: Transaction, batch: ProvenBatch, token: Token) -> dict[int, int]:
        before = transaction.table_metadata.schema()
        fields = super()._evolved(transaction, batch, token)
        schema = transaction.table_metadata.schema()
        new = {schema.find_column_name(each) for each in schema.field_ids if each not in before.field_ids}
        if batch.begins_anew:
            return fields
        if filled := sorted(batch.defaulted & new):
            raise TerminalError(
                f"column {filled[0]} of table {batch.origin.table} has an initial default, which earlier rows of "
                f"{self.url} lack; run `icefloe reset {batch.origin.pipeline}`, which loads the table again"
            )
        refuse_lone_replay(batch, is_unfit=token.last is None, place=self.url)
        return fields


def find_removed(
    target: TargetRows,
    removed: pa.Table,
    identity: Sequence[str],
    copies: NDArray[np.int64],
    batch: ProvenBatch,
    *,
    place: str,
) -> list[FoundRows]:
    """The rows that a batch removed; raises unless the table has just these."""
    if not removed.num_rows:
        return []
    [rows] = removed.to_batches()
    names = list(identity or removed.column_names)
    keys = pa.RecordBatch.from_arrays(named_columns(rows, names), names)
    narrowing = {name: rows.column(name) for name in rows.schema.names if not pa.types.is_nested(rows[name].type)}
    # A key is there once; of equal rows there may be more than were removed.
    most = np.full(len(copies), 2) if identity else copies
    found, counts = target.find(keys, most, narrowing)
    wrong = np.flatnonzero(counts > copies if identity and (counts > copies).any() else counts != copies)
    if len(wrong):
        [key] = plain_rows(keys.slice(int(wrong[0]), 1))
        shown = ", ".join(f"{name}={value}" for name, value in key.items())
        if identity and (counts > copies).any():
            raise TerminalError(
                f"{place} has several rows of a key, such as {shown[:_SHOWN_CHARACTERS]}: correct identifier_columns "
                "if they do not identify a row, otherwise stop the other writer; then run `icefloe reset "
                f"{batch.origin.pipeline}`, which loads the table again"
            )
        raise TerminalError(
            f"{place} has drifted from table {batch.origin.table}: batch {batch.batch_number} removes or updates "
            f"{len(copies)} rows, and {len(wrong)} of them are not there just once, such as "
            f"{shown[:_SHOWN_CHARACTERS]}: something else writes to it; stop that, then run `icefloe reset "
            f"{batch.origin.pipeline}`, which loads the table again"
        )
    return found


def needed_columns(transaction: Transaction, schema: pa.Schema, identity: Sequence[str]) -> list[str]:
    """The columns by which removed rows are found: the key, and those of partitions and sort orders."""
    if not identity:
        return schema.names
    names = bounded_columns(transaction.table_metadata) | {column_path(schema, name)[0] for name in identity}
    return [name for name in schema.names if name in names]


def bounded_columns(metadata: TableMetadata) -> set[str]:
    """The columns whose bounds tell files apart, besides those of the key: of partitions and sort orders."""
    ids = {each.source_id for spec in metadata.partition_specs for each in spec.fields}
    ids |= {each.source_id for order in metadata.sort_orders for each in order.fields}
    return {name for each in ids if (name := metadata.schema().find_column_name(each)) is not None}


def stage_load(transaction: Transaction, batch: ProvenBatch, loaded: Sequence[DataFile], trace: dict[str, str]) -> str:
    """Stage all rows in place of what was there: on main, or on a branch until the last batch of the load."""
    is_last, replaces = batch.ends_load or not batch.is_load, batch.begins_anew and has_rows(transaction._table)  # noqa: SLF001
    # Readers of main, also those of its log, must not see the table between the rows of before and the new ones.
    is_whole = batch.begins_anew and is_last and not replaces
    branch = MAIN_BRANCH if is_whole else LOAD_BRANCH
    load = transaction.table_metadata.refs.get(LOAD_BRANCH)
    if load is not None and load.snapshot_ref_type is SnapshotRefType.TAG:
        raise TerminalError(f"the tag {LOAD_BRANCH} of the target is in the way of a load: remove it")
    if is_whole and load is not None:
        remove_load(transaction)  # that was given up
    if batch.begins_anew:
        if not is_whole:
            if transaction.table_metadata.snapshot_by_name(MAIN_BRANCH) is None:
                # A branch needs a snapshot to begin with.
                append_files(transaction, (), trace, MAIN_BRANCH)
            head = transaction.table_metadata.refs[MAIN_BRANCH].snapshot_id
            transaction._stage((ref_update(branch, head),))  # noqa: SLF001
        if replaces:
            delete_all(transaction, branch)
    head = append_files(transaction, loaded, trace, branch)
    if is_whole or not is_last:
        return branch
    transaction._stage((ref_update(MAIN_BRANCH, head),))  # noqa: SLF001
    remove_load(transaction)
    return MAIN_BRANCH


def remove_load(transaction: Transaction) -> None:
    """Stage the end of the branch of a load."""
    transaction._stage((RemoveSnapshotRefUpdate(ref_name=LOAD_BRANCH),))  # noqa: SLF001
