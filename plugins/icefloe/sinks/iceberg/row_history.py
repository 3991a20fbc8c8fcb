"""Every version of every row of a table, with the time in which it was current."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import ClassVar, Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyiceberg.expressions import BooleanExpression, NotNull, Reference
from pyiceberg.expressions.parser import parse
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import BooleanType, NestedField, TimestamptzType

from icefloe.changes.columns import ChangeColumns
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import ProvenBatch, StagedPart, column_paths, named_columns
from icefloe.sinks.iceberg.changelog import with_schema
from icefloe.sinks.iceberg.keyed_table import KeyedTableSink, find_removed, needed_columns, remove_load, stage_load
from icefloe.sinks.iceberg.row_delta import stage_row_delta
from icefloe.sinks.iceberg.table_sink import times_of, trace_of, writes_snapshots
from icefloe.sinks.iceberg.target import LOAD_BRANCH, TargetTable, Token, pyiceberg_errors
from icefloe.sinks.iceberg.target_files import WrittenFiles
from icefloe.sinks.iceberg.target_rows import FoundRows, TargetRows, as_wide, like
from icefloe.sinks.iceberg.target_schema import optional
from icefloe.sinks.iceberg.versions import SeveralRowsError, Versions
from icefloe.sinks.key_changes import key_columns, several_rows, taken
from icefloe.sinks.sink import KeptVersions

_TIME: Final = pa.timestamp("us", tz="UTC")
VALID_FROM, VALID_TO, IS_CURRENT = "valid_from", "valid_to", "is_current"
_OPENED: Final = pa.schema(
    [
        (VALID_FROM, _TIME),
        (ChangeColumns.BATCH, pa.int64()),
        (ChangeColumns.ORDINAL, pa.int32()),
        (ChangeColumns.SNAPSHOT_ID, pa.int64()),
        (ChangeColumns.TIMESTAMP, _TIME),
        ("_delivered_at", _TIME),
    ]
)
"""The change that began a version: when readers saw it, its place in all that was delivered, when that was known."""
_CLOSED: Final = pa.schema(
    [
        (VALID_TO, _TIME),
        ("_closed_batch", pa.int64()),
        ("_closed_change_ordinal", pa.int32()),
        ("_closed_commit_snapshot_id", pa.int64()),
        ("_closed_commit_timestamp", _TIME),
        ("_closed_delivered_at", _TIME),
    ]
)
"""The same of the change that ended it; null while it is current."""
_COLUMNS: Final = pa.schema([*_OPENED, *_CLOSED, (IS_CURRENT, pa.bool_())])

Read: TypeAlias = Callable[[], Iterator[pa.RecordBatch]]
Hashed: TypeAlias = tuple[RowHashes, RowHashes, RowHashes]
"""Of keys, of the columns whose changes make a version, and of whole rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Steps:
    """Facts of the steps of a batch, a row for each column of `_OPENED`, as int64."""

    facts: NDArray[np.int64]

    @classmethod
    def of(cls, batch: ProvenBatch, token: Token) -> "_Steps":
        times = times_of(batch, None if token.last is None else token.last.made_current_at_ms)
        count, now_us = len(batch.log), time.time_ns() // 1000
        return cls(
            facts=np.array(
                [
                    np.multiply(times, 1000),
                    np.full(count, batch.batch_number),
                    np.arange(count),
                    [step.commit_snapshot_id for step in batch.log],
                    [step.commit_timestamp_us for step in batch.log],
                    np.full(count, now_us),
                ],
                np.int64,
            ).reshape(len(_OPENED), count)
        )

    def opened(self, ordinals: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.facts[:, ordinals]

    def closed(self, ordinals: NDArray[np.int64]) -> list[pa.Array]:
        """The columns of `_CLOSED` and `IS_CURRENT`; -1 for a version that is current."""
        is_current = ordinals < 0
        columns = [
            pa.array(values, pa.int64(), mask=is_current).cast(each.type)
            for values, each in zip(self.facts[:, ordinals], _CLOSED, strict=True)
        ]
        return [*columns, pa.array(is_current)]


class HistorySink(KeyedTableSink):
    """Ends the versions that a batch ended, and adds those that it began, in one snapshot.

    By default the table is partitioned by ``is_current``, so that a batch reads no version that has ended.
    """

    noun: ClassVar[str] = "history"
    shown: ClassVar[BooleanExpression] = parse(f"{IS_CURRENT} = true")
    columns: ClassVar[Schema] = Schema(
        NestedField(1, VALID_FROM, TimestamptzType()),
        NestedField(2, VALID_TO, TimestamptzType()),
        NestedField(3, IS_CURRENT, BooleanType()),
    )
    partitions: ClassVar[PartitionSpec] = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), IS_CURRENT))

    def __init__(self, target: TargetTable, *, track: Sequence[str] = (), untracked: Sequence[str] = ()) -> None:
        super().__init__(target)
        self._track, self._untracked = track, untracked

    def kept_versions(self, schema: pa.Schema, keys: Sequence[str]) -> KeptVersions | None:
        """All versions in the table, in the columns that are tracked."""
        table = self._target.find()
        token = None if table is None else Token.of(table, self.url)
        if table is None or token is None or (last := token.last) is None or last.is_loading:
            return None
        found = table.schema().column_names
        columns = [name for name in schema.names if name in {*self._tracked(schema.names), *keys} and name in found]
        # Of earlier versions no instant is compared, and their numbers may be wider.
        since_ms = last.load_current_at_ms or 0
        lasting = parse(f"{VALID_TO} is null or {VALID_TO} > {since_ms * 1000}")

        def read() -> Iterator[pa.RecordBatch]:
            names = (VALID_FROM, VALID_TO, *columns)
            types = [_TIME, _TIME, *(schema.field(name).type for name in columns)]
            with pyiceberg_errors(self.url, "read"):
                for rows in table.scan(lasting, selected_fields=names).to_arrow_batch_reader():
                    arrays = [like(rows.column(name), kind) for name, kind in zip(names, types, strict=True)]
                    yield pa.RecordBatch.from_arrays(arrays, names)

        return KeptVersions(load=last.load, last=last.number, since_ms=since_ms, columns=columns, read=read)

    def _tracked(self, names: Sequence[str]) -> list[str]:
        return [name for name in self._track or names if name not in self._untracked]

    def _refuse_format(self, table: Table) -> None:
        if not writes_snapshots(table.metadata):
            raise TerminalError(
                f"{self.url} has format version {table.metadata.format_version}, and a history is written by "
                "PyIceberg, which writes version 2: name a table of that version",
                key="sink.table",
            )

    def _refuse_batch(self, batch: ProvenBatch) -> None:
        super()._refuse_batch(batch)
        names, top = {".".join(path) for path in column_paths(batch.shown_schema)}, batch.shown_schema.names
        if hidden := [name for name in batch.identity if name not in names]:
            raise TerminalError(
                f"{self.url} is a history, whose rows need their key, and column {hidden[0]} is not in columns: add it",
                key="columns",
            )
        if taken_names := [name for name in top if name.casefold() in _COLUMNS.names]:
            raise TerminalError(
                f"column {taken_names[0]} of table {batch.origin.table} has the name of a column of a history; leave "
                "it out of columns, or rename it in the table",
                key="columns",
            )
        for key, given in (("sink.track", self._track), ("sink.except", self._untracked)):
            if unknown := [name for name in given if name not in top]:
                raise TerminalError(
                    f"{key} has {unknown[0]}, which is no column of table {batch.origin.table}: correct it", key=key
                )
        if batch.changes != "each" or len(batch.log) < batch.steps:
            raise TerminalError(
                f"batch {batch.batch_number} does not say when its states were current, as a history needs it: set "
                "changes: each and follow: log in the pipeline"
            )

    def _columns(self, batch: ProvenBatch) -> pa.Schema:
        return pa.schema([*batch.shown_schema, *_COLUMNS])

    def _stage(
        self, transaction: Transaction, token: Token, batch: ProvenBatch, part: StagedPart, files: WrittenFiles
    ) -> str:
        steps = _Steps.of(batch, token)

        def shown() -> Iterator[pa.RecordBatch]:
            yield from map(batch.shown_rows, part.read())

        is_there = _has_versions(transaction._table)  # noqa: SLF001
        if batch.begins_anew and is_there and not batch.is_load:
            raise TerminalError(
                f"{self.url} has a history already, which all states since the earliest snapshot cannot go on with: "
                "set initial_load: full, or name another sink.table"
            )
        if batch.is_load and (not is_there or not batch.ends_load):
            versions = self._changed(batch, part)
            rows = _version_rows(batch, shown, versions, steps.opened(versions.opened), steps)
            return stage_load(transaction, batch, files.anew(transaction, rows), trace_of(token, batch))
        if batch.is_load:
            self._stage_reload(transaction, token, batch, shown, steps, files)
            return MAIN_BRANCH
        versions = self._changed(batch, part)
        target = TargetRows(transaction)
        old = versions.take(np.flatnonzero(versions.is_old)[np.argsort(versions.first[versions.is_old])])
        found = self._find(transaction, target, batch, shown, old)
        new = versions.take(~versions.is_old)
        self._stage_versions(transaction, token, batch, target, found, (old, new), shown, steps, files)
        return MAIN_BRANCH

    def _changed(self, batch: ProvenBatch, part: StagedPart) -> Versions:
        """The versions that the changes of a batch begin, go on with and end."""
        hashed, ordinals, weights = list[Hashed](), [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
        for changes in part.read():
            hashed.append(self._hash(batch, batch.shown_rows(changes)))
            ordinals.append(changes.column(ChangeColumns.ORDINAL).to_numpy())
            weights.append(ChangeColumns.weights(changes))
        return self._versions(hashed, np.concatenate(ordinals), np.concatenate(weights), batch, part.read)

    def _find(
        self, transaction: Transaction, target: TargetRows, batch: ProvenBatch, shown: Read, old: Versions
    ) -> list[FoundRows]:
        """The present versions in the target of rows that were removed."""
        schema = optional(batch.shown_schema)
        needed = needed_columns(transaction, schema, batch.identity)
        wanted = pa.schema(map(schema.field, needed))
        rows = (with_schema(each.select(needed).columns, wanted) for each in taken(shown, old.first))
        removed = pa.Table.from_batches(rows, wanted).combine_chunks()
        removed = removed.append_column(IS_CURRENT, pa.repeat(pa.scalar(value=True), removed.num_rows))
        identity = (*batch.identity, IS_CURRENT)
        return find_removed(target, removed, identity, np.ones(len(old.first), np.int64), batch, place=self.url)

    def _stage_versions(
        self,
        transaction: Transaction,
        token: Token,
        batch: ProvenBatch,
        target: TargetRows,
        found: Sequence[FoundRows],  # the old versions, by their places
        versions: tuple[Versions, Versions],  # old and new
        shown: Read,
        steps: _Steps,
        files: WrittenFiles,
    ) -> None:
        old, new = versions
        is_renewed = old.row >= 0
        opened = _opened(transaction, target, found, len(old.row))
        together = Versions.concat(old.take(is_renewed), new)
        facts = np.concatenate([opened[:, is_renewed], steps.opened(new.opened)], axis=1)

        def ended() -> Iterator[pa.RecordBatch]:
            for each in found:
                for rows, places in target.read(each, transaction.table_metadata.schema()):
                    is_kept = ~is_renewed[places]
                    yield _with_end(rows.filter(pa.array(is_kept)), steps.closed(old.closed[places[is_kept]]))

        added = [
            *files.anew(transaction, _version_rows(batch, shown, together, facts, steps)),
            *files.anew(transaction, (rows for rows in ended() if rows.num_rows)),
        ]
        stage_row_delta(transaction, target, found, added, files, trace_of(token, batch))

    def _stage_reload(
        self,
        transaction: Transaction,
        token: Token,
        batch: ProvenBatch,
        shown: Read,
        steps: _Steps,
        files: WrittenFiles,
    ) -> None:
        """Compare the rows of a load with the present versions; those that are the same stay. About 200 bytes a row."""
        target, loading = TargetRows(transaction), TargetRows(transaction, LOAD_BRANCH)
        present, earlier = _current(target), [] if batch.begins_anew else _current(loading)
        # A source that was made again may have narrower numbers: earlier ones fit the target alone.
        types = transaction.table_metadata.schema().as_arrow()
        wide = pa.schema([(each.name, as_wide(each.type, types.field(each.name).type)) for each in batch.shown_schema])

        def held() -> Iterator[pa.RecordBatch]:
            return _rows(target, present, wide, transaction)

        def state() -> Iterator[pa.RecordBatch]:
            return chain(_rows(loading, earlier, batch.shown_schema, transaction), shown())

        def compared() -> Iterator[pa.RecordBatch]:
            return (_in_types(rows, wide) for rows in state())

        hashed = [[self._hash(batch, rows) for rows in read()] for read in (held, compared)]
        num_held, num_loaded = (sum(len(keys) for keys, *_ in each) for each in hashed)
        versions = self._versions(
            [each for side in hashed for each in side],
            np.zeros(num_held + num_loaded, np.int32),
            np.repeat(np.array([-1, 1]), [num_held, num_loaded]),
            batch,
            lambda: chain(held(), compared()),
        )
        old, new = (versions.take(versions.is_old == is_old) for is_old in (True, False))
        numbers = np.full(num_held, -1)
        numbers[old.first] = np.arange(len(old.first))
        found = [each for each in (rows.numbered(numbers[rows.places]) for rows in present) if len(each.places)]
        pair = old.shifted(num_held), new.shifted(num_held)
        self._stage_versions(transaction, token, batch, target, found, pair, state, steps, files)
        if LOAD_BRANCH in transaction.table_metadata.refs:
            remove_load(transaction)

    def _hash(self, batch: ProvenBatch, rows: pa.RecordBatch) -> Hashed:
        tracked = named_columns(rows, self._tracked(batch.shown_schema.names))
        columns = key_columns(rows, batch.identity), tracked, rows.columns
        keys, values, whole = (RowHashes.of(each, key=batch.hash_key) for each in columns)
        return keys, values, whole

    def _versions(
        self,
        hashed: Sequence[Hashed],
        ordinals: NDArray[np.int32],
        weights: NDArray[np.int64],
        batch: ProvenBatch,
        read: Read,
    ) -> Versions:
        keys, tracked, rows = (RowHashes.concat(each[number] for each in hashed) for number in range(3))
        try:
            return Versions.of(keys, tracked, rows, ordinals, weights)
        except SeveralRowsError as several:
            raise several_rows(read, batch.identity, several.position) from None


def _has_versions(table: Table) -> bool:
    """True if main has a version: rows of another mode have none."""
    if VALID_FROM not in table.schema().column_names:
        return False
    scan = table.scan(NotNull(term=Reference(VALID_FROM)), selected_fields=(VALID_FROM,), limit=1)
    return any(rows.num_rows for rows in scan.to_arrow_batch_reader())


def _current(target: TargetRows) -> list[FoundRows]:
    """The versions that are current, numbered from 0 on."""
    found, _ = target.find(pa.record_batch({IS_CURRENT: [True]}), np.array([np.iinfo(np.int64).max]), {})
    ends = np.cumsum([0, *(len(each.places) for each in found)])
    return [replace(each, places=np.arange(*ends[number : number + 2])) for number, each in enumerate(found)]


def _rows(
    target: TargetRows, found: Sequence[FoundRows], schema: pa.Schema, transaction: Transaction
) -> Iterator[pa.RecordBatch]:
    """The rows that were found, in these columns and types."""
    names = transaction.table_metadata.schema().select(*schema.names)
    for each in found:
        for rows, _ in target.read(each, names):
            yield _in_types(rows, schema)


def _in_types(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [like(rows.column(field.name), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=optional(schema))


def _version_rows(
    batch: ProvenBatch, read: Read, versions: Versions, opened: NDArray[np.int64], steps: _Steps
) -> Iterator[pa.RecordBatch]:
    """The last row of each version, with its beginning and its end."""
    order = np.argsort(versions.row)
    schema, first = optional(pa.schema([*batch.shown_schema, *_COLUMNS])), 0
    for rows in taken(read, versions.row[order]):
        places = order[first : first + rows.num_rows]
        begun = [pa.array(v).cast(each.type) for v, each in zip(opened[:, places], _OPENED, strict=True)]
        yield with_schema([*rows.columns, *begun, *steps.closed(versions.closed[places])], schema)
        first += rows.num_rows


def _opened(transaction: Transaction, target: TargetRows, found: Sequence[FoundRows], count: int) -> NDArray[np.int64]:
    """The facts of `_OPENED` of versions in the target, by place."""
    facts = np.zeros((len(_OPENED), count), np.int64)
    schema = transaction.table_metadata.schema().select(*_OPENED.names)
    for each in found:
        for rows, places in target.read(each, schema):
            for number, name in enumerate(_OPENED.names):
                facts[number, places] = rows.column(name).cast(_OPENED.field(name).type).cast(pa.int64()).to_numpy()
    return facts


def _with_end(rows: pa.RecordBatch, closed: Sequence[pa.Array]) -> pa.RecordBatch:
    for name, column in zip([*_CLOSED.names, IS_CURRENT], closed, strict=True):
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.schema.field(place), column.cast(rows.schema.field(place).type))
    return rows
