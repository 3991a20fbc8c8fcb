"""``icefloe trace``: what became of one row."""

import json
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self
from uuid import UUID

import pyarrow as pa

from icefloe.batch.changelog_scan import ChangelogScan
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.verify.sink_rows import WrittenColumns
from icefloe.batch.verify.table_state import committed_batches, rows_at
from icefloe.changes.columns import ChangeColumns, plain_rows
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.checkpoint.batch_spec import Identity
from icefloe.checkpoint.records import BatchOutcome, CommitRecord, Cursor
from icefloe.cli.pipeline_session import load_named_pipeline, open_session
from icefloe.cli.screen import Screen
from icefloe.engines.local import LocalEngine
from icefloe.errors import TerminalError, UsageError
from icefloe.iceberg.filters.row_filter import RowFilter
from icefloe.iceberg.history.passage import Passage
from icefloe.iceberg.history.published import BranchLog
from icefloe.iceberg.scan.steps import SnapshotRange
from icefloe.iceberg.schemas.column_paths import IdentifierColumns
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.sinks.sink import Sink
from icefloe.storage.store import KeyMissingError


@dataclass(frozen=True, slots=True, kw_only=True)
class RowKey:
    """The value of each identifier column."""

    texts: Mapping[str, str]  # as written, by dotted name
    columns: IdentifierColumns
    values: pa.RecordBatch  # one row, typed as the identifier columns, with their dotted names
    filter: str  # an Iceberg expression for its rows

    @classmethod
    def parse(cls, given: Sequence[str], schema: TableSchema, identity: Sequence[str]) -> Self:
        """The key in arguments such as ``id=4``; one identifier column needs no name; with none, name any columns."""
        whole = " ".join(given)
        if len(identity) == 1:
            texts = {identity[0]: whole.removeprefix(f"{identity[0]}=")}
        else:
            texts = dict(each.split("=", 1) for each in given if "=" in each)
        if not texts or (identity and set(texts) != set(identity)):
            names = " ".join(f"{name}=VALUE" for name in identity) or "COLUMN=VALUE"
            raise UsageError(f"{whole!r} names no row: write {names}")
        ordered = list(identity) or list(texts)
        named = IdentifierColumns.named(schema.columns, ordered)
        empty = pa.RecordBatch.from_arrays([pa.nulls(0, each.type) for each in schema.arrow], schema.arrow.names)
        columns = [
            _value(texts[name], column.type, name, schema)
            for name, column in zip(ordered, named.values(empty), strict=True)
        ]
        return cls(
            texts={name: texts[name] for name in ordered},
            columns=named,
            values=pa.RecordBatch.from_arrays(columns, ordered),
            filter=" and ".join(
                _condition(name, texts[name], column, schema) for name, column in zip(ordered, columns, strict=True)
            ),
        )

    def rows_in(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch with this key."""
        return batch.filter(RowHashes.among(self.columns.values(batch), self.values.columns))


def _value(text: str, kind: pa.DataType, name: str, schema: TableSchema) -> pa.Array:
    is_nanoseconds = pa.types.is_timestamp(kind) and kind.unit == "ns"
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind) or is_nanoseconds:
        raise _untraceable(name, text, schema)
    is_uuid = kind == pa.uuid()
    try:
        if is_uuid:
            return pa.ExtensionArray.from_storage(kind, pa.array([UUID(text).bytes], kind.storage_type))
        # Arrow reads no times, but the time of a timestamp.
        if pa.types.is_time(kind):
            return pa.array([f"1970-01-01T{text}"]).cast(pa.timestamp("us")).cast(kind)
        return pa.array([text], pa.string()).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as cause:
        shown = "uuid" if is_uuid else kind
        raise UsageError(f"{name}={text} is no value of the type {shown}: write it as the table has it") from cause


def _condition(name: str, text: str, column: pa.Array, schema: TableSchema) -> str:
    # In quotes, where PyIceberg reads a backslash in a name as a quote; binding gives the text the column's type.
    value: object = column[0].as_py()
    literal = value.isoformat() if hasattr(value, "isoformat") else str(value)
    quoted_name, quoted_value = name.replace('"', "\\"), literal.replace("'", "''")
    condition = f"\"{quoted_name}\" = '{quoted_value}'"
    try:
        said = RowFilter.parse(condition, schema.columns, table="").compared
    except TerminalError as cause:
        raise _untraceable(name, text, schema) from cause
    # The parser changes backslashes in names, and tabs everywhere, without a word.
    if said.keys() != {name} or (isinstance(value, str) and said[name] != [value]):
        raise _untraceable(name, text, schema)
    return condition


def _untraceable(name: str, text: str, schema: TableSchema) -> UsageError:
    given, kind = f"{name}={text}", str(schema.columns.find_type(name))
    return UsageError(
        f"trace cannot take {given!r} of type {kind}, because the text of a filter cannot hold it: look for the row "
        "in the sink",
        column=name,
    )


_COLUMNS: Final = ("batch", "change_type", "commit_snapshot_id", "commit_timestamp", "commit_properties", "row")


def trace(arguments: Namespace, screen: Screen) -> None:
    """Shows the changes of a row, and its present place."""
    with screen.under_way("looking for the row"):
        session = open_session(load_named_pipeline(arguments))
        with session.delivery_sink() as sink, session.pipeline.with_lines():
            view = session.checkpoint.look()
            if view.pipeline is None or view.cursor is None:
                name = session.pipeline.name
                raise UsageError(f"{name} has no batch yet; run it first", pipeline=name)
            session = session.with_fresh_table()
            session.table.history.require_same(view.cursor.snapshot)
            traced = _Trace(session, view.pipeline.identity, arguments.key)
            document = traced.found(sink, view.cursor, committed_batches(session))
    # Of changes that are not delivered yet, the batch is a dash.
    changes = [*document["changes"], *document["pending"]]
    has_properties = any(change["commit_properties"] is not None for change in changes)
    screen.table(changes, [name for name in _COLUMNS if has_properties or name != "commit_properties"])
    if not (changes or document["table_rows"]):
        name = " ".join(f"{column}={value}" for column, value in document["key"].items())
        screen.say(f"{session.pipeline.table} has no row with {name}, and no change of it was delivered")
    held = ["not asked"] if document["sink_rows"] is None else _texts(document["sink_rows"])
    in_table = _texts(document["table_rows"])
    screen.facts({"key": document["key"], "in the table": in_table, "in the sink": held, "notes": document["notes"]})
    screen.answer(document)


def _document(change: Mapping[str, Any]) -> dict[str, Any]:
    snapshot_id, time = change.get(ChangeColumns.SNAPSHOT_ID), change.get(ChangeColumns.TIMESTAMP)
    properties = change.get(ChangeColumns.PROPERTIES)
    return {
        "batch": change[ChangeColumns.BATCH],
        "change_type": change[ChangeColumns.TYPE],
        "change_ordinal": change.get(ChangeColumns.ORDINAL),
        "commit_snapshot_id": None if snapshot_id is None else str(snapshot_id),
        "commit_timestamp": None if time is None else time.isoformat(),
        "commit_properties": None if properties is None else dict(properties),
        "row": _plain(_row(change)),
    }


def _texts(rows: Sequence[object]) -> list[str]:
    return [*map(json.dumps, rows)] or ["no row"]


def _row(change: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in change.items() if name not in ChangeColumns.ALL}


def _plain(value: object) -> Any:
    """The value as JSON has it: texts for what JSON lacks, NaN too."""
    return json.loads(json.dumps(value, default=str), parse_constant=str)


class _Trace:
    """Looks for one row; without a sink, the files are the sink. Changes of lost files are computed again."""

    def __init__(self, session: PipelineSession, identity: Identity, given: Sequence[str]) -> None:
        self._session = session
        latest = session.table.history.head(session.pipeline.branch)
        self._head = None if latest is None else latest.snapshot_id
        self._schema = TableSchema.at(session.table.metadata, self._head, after_snapshot_id=None)
        self._identity = identity.named_by(self._schema.columns.find_column_name)
        self._key = RowKey.parse(given, self._schema, self._identity.columns)
        self._notes: list[str] = []

    def found(self, sink: Sink | None, cursor: Cursor, committed: Sequence[CommitRecord]) -> dict[str, Any]:
        changes: list[dict[str, object]] = []
        for batch in committed:
            if batch.outcome is BatchOutcome.DELIVERED:
                kept = self._kept(batch)
                changes += self._computed(batch) if kept is None else kept
        pending = self._pending(cursor)
        return {
            "pipeline": self._session.pipeline.name,
            "table": self._session.pipeline.table,
            "key": self._key.texts,
            "changes": list(map(_document, changes)),
            "pending": [_document({ChangeColumns.BATCH: None, **row}) for row in pending],
            "table_rows": _plain(self._state(self._head)),
            "sink_rows": _plain(_last_row(changes) if sink is None else self._held(sink)),  # None: not asked
            "notes": self._notes,
        }

    def _kept(self, batch: CommitRecord) -> list[dict[str, object]] | None:
        files = self._session.folder_of_changes
        try:
            found: list[dict[str, object]] = []
            number, manifest = batch.batch_number, files.manifest(batch.batch_number)
            # A reset gives an empty manifest to a batch that was delivered elsewhere.
            if manifest.batch.steps != batch.steps:
                return None
            for part in manifest.parts:
                for rows in files.read_part(number, part):
                    if self._key.columns.missing_in(rows.schema):
                        return None
                    found += plain_rows(self._key.rows_in(rows))
        except KeyMissingError:
            return None
        return found

    def _computed(self, batch: CommitRecord) -> list[dict[str, object]]:
        number = batch.batch_number
        try:
            if batch.after_snapshot_id is None or batch.load_part is not None:
                if batch.steps == 0 or (batch.load_part is not None and not batch.load_part.is_last):
                    return []
                rows = self._state(batch.end.snapshot_id)
                return [{ChangeColumns.BATCH: number, ChangeColumns.TYPE: "INSERT", **row} for row in rows]
            spec = self._session.checkpoint.known_offset(number).spec
            found = self._changes(
                SnapshotRange(
                    after_snapshot_id=spec.after_snapshot_id, up_to_snapshot_id=spec.up_to_snapshot_id, steps=spec.steps
                )
            )
            return [{ChangeColumns.BATCH: number, **row} for row in found]
        except TerminalError as error:
            self._notes.append(f"the changes of batch {number} are not kept, and cannot be computed again: {error}")
            return []

    def _pending(self, cursor: Cursor) -> list[dict[str, object]]:
        pipeline, table, after_id = self._session.pipeline, self._session.table, cursor.snapshot_id
        if self._head is None:
            return []
        if pipeline.follows_log:
            since_ms = cursor.made_current_at_ms
            passage = BranchLog.passage(
                table, branch=pipeline.branch, after_snapshot_id=after_id, made_current_at_ms=since_ms
            )
        else:
            passage = Passage.find(table, branch=pipeline.branch, after_snapshot_id=after_id, on_rollback="compensate")
        found = SnapshotRange.of_passage(passage, table, commit_groups=pipeline.commit_groups)
        steps = table.history.with_properties(found.steps, pipeline.commit_properties)
        return self._changes(replace(found, steps=steps))

    def _changes(self, snapshots: SnapshotRange) -> list[dict[str, object]]:
        if not snapshots.steps:
            return []
        pipeline, engine = self._session.pipeline, LocalEngine()
        scan = ChangelogScan.of(
            self._session.table,
            snapshots,
            identifier_columns=list(self._identity.columns) or None,
            changes="net" if pipeline.changes == "net" else "each",
            columns=pipeline.columns,
            filter_text=self._filter,
            cores=engine.threads,
        )
        return [row for changes in scan.read(engine) for row in plain_rows(changes)]

    def _state(self, snapshot_id: int | None) -> list[dict[str, object]]:
        if snapshot_id is None:
            return []
        batches = rows_at(self._session, snapshot_id, filter_text=self._filter)
        return [row for batch in batches for row in plain_rows(batch)]

    def _held(self, sink: Sink) -> list[dict[str, object]] | None:
        columns = self._session.pipeline.columns
        shown = self._schema if columns is None else self._schema.select(columns)
        if not self._identity.columns:
            self._notes.append(f"{sink.url} was not asked: its rows have no identity")
            return None
        if sink.keyed:
            return [row for rows in sink.read_back(shown.arrow, keys=self._key.values) for row in plain_rows(rows)]
        finds_keys = not sink.keeps_written_columns or sink.finds_keys
        if not finds_keys and self._key.columns.missing_in(shown.arrow):
            self._notes.append(f"{sink.url} was not asked: its rows do not show {', '.join(self._identity.columns)}")
            return None
        written = WrittenColumns.since_last_load(self._session, shown)
        return _last_row([row for rows in written.read(sink, keys=self._key.values) for row in plain_rows(rows)])

    @property
    def _filter(self) -> str:
        own = self._session.pipeline.filter
        return self._key.filter if own is None else f"({own}) and {self._key.filter}"


def _last_row(changes: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    if not changes or changes[-1][ChangeColumns.TYPE] not in ("INSERT", "UPDATE_AFTER"):
        return []
    return [_row(changes[-1])]
