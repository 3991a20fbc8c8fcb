"""The form of changes in files: which columns they have, as Parquet or as JSON lines, and back."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from icefloe.changes.columns import ChangeColumns, ChangeType
from icefloe.documents import LEFT_OUT_IF_EMPTY, Document
from icefloe.errors import TerminalError, one_line
from icefloe.sinks.batch_to_deliver import ProvenBatch
from icefloe.sinks.events import EventRows, event_rows, operations, source_rows, source_schema
from icefloe.sinks.hive_folders import Run, hive_runs
from icefloe.sinks.json_texts import UNREADABLE, JsonForm, parsed_rows, parser, row_texts
from icefloe.sinks.parquet_files import holds_same_rows, read_parquet, row_slices, write_parquet_files
from icefloe.storage.local_folders import on_local_disk
from icefloe.storage.store import KeyMissingError, Store, join_url

_ROWS_AT_ONCE: Final = 8192
_BYTES_AT_ONCE: Final = 16 << 20
_READ_BYTES: Final = 4 << 20
_VERSION: Final = ChangeColumns.VERSION
_STEP_BITS: Final = 32
_DELTA_TYPES: Final = pa.array(["insert", "delete", "update_preimage", "update_postimage"])
"""By `ChangeType`; so are the following."""
_TYPES: Final = pa.array([kind.name for kind in ChangeType])


@dataclass(frozen=True, slots=True, kw_only=True)
class FileForm(Document):
    """The keys of a files sink that decide how its files look, as its manifests have them.

    ============  ==============================================================================
    columns_as    columns
    ============  ==============================================================================
    icefloe       the change columns, then those of the table
    delta         those of the table, then those of Delta's change data feed, then ours
    debezium      before, after, source, op and ts_ms: an event, so that an update is one row
    ============  ==============================================================================
    """

    version: Literal[1] = 1
    format: Literal["parquet", "jsonl"] = "parquet"
    columns_as: Annotated[
        Literal["icefloe", "delta", "debezium"], Field(exclude_if=lambda value: value == "icefloe")
    ] = "icefloe"
    order_by: Annotated[tuple[str, ...], LEFT_OUT_IF_EMPTY] = ()
    partition_by: Annotated[tuple[str, ...], LEFT_OUT_IF_EMPTY] = ()

    def schema(self, given: pa.Schema) -> pa.Schema:
        """The columns in files of the changes with such columns."""
        if self.columns_as == "debezium":
            image = pa.struct(_nullable(each for each in given if each.name not in ChangeColumns.ALL))
            source = pa.struct(list(source_schema(given)))
            kinds = {"before": image, "after": image, "source": source, "op": pa.string(), "ts_ms": pa.int64()}
            return pa.schema(kinds)
        columns = {each.name: each for each in given}
        if self.columns_as == "delta":
            del columns[ChangeColumns.BATCH], columns[ChangeColumns.ORDINAL]
            ours = {name: columns.pop(name) for name in ChangeColumns.ALL if name in columns}
            of_delta = (ChangeColumns.TYPE, _VERSION, ChangeColumns.TIMESTAMP)
            columns |= {name: ours.pop(name, pa.field(_VERSION, pa.int64())) for name in of_delta} | ours
        if self.format == "jsonl":
            # Readers of JSON round numbers above 2^53.
            columns[ChangeColumns.SNAPSHOT_ID] = pa.field(ChangeColumns.SNAPSHOT_ID, pa.string())
        return pa.schema(list(columns.values()))

    def written(self, columns: pa.Schema) -> pa.Schema:
        """Of the columns of `schema`, those inside of the files; only an event keeps those of its folder."""
        gone = () if self.columns_as == "debezium" else self.partition_by
        return pa.schema([each for each in columns if each.name not in gone])

    def runs(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Run]:
        """Sorted rows of `rows` by partition, as `written`; an event is of that of its later image."""
        if not self.partition_by:
            yield {}, batches
            return
        yield from hive_runs(
            (rows.select(self.written(rows.schema).names), self._images(rows).select(self.partition_by))
            for rows in filter(len, batches)
        )

    def _images(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if self.columns_as != "debezium":
            return rows
        after = rows.column("after")
        # Not by a choice of structs, which Arrow lacks for uuids.
        places = np.arange(len(rows)) + len(rows) * after.is_valid().to_numpy(zero_copy_only=False)
        images = pa.concat_arrays([rows.column("before"), after])
        return pa.RecordBatch.from_struct_array(images.take(pa.array(places)))

    def rows(self, batch: ProvenBatch, changes: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of files from changes with the columns that a sink is given."""
        if self.columns_as == "debezium":
            for events in event_rows(changes):
                yield _events(batch, events, self.schema(events.rows.schema))
            return
        for given in changes:
            columns = dict(zip(given.schema.names, given.columns, strict=True))
            if self.columns_as == "delta":
                columns[ChangeColumns.TYPE] = _DELTA_TYPES.take(pa.array(ChangeColumns.types(given)))
                batches = pc.shift_left(columns[ChangeColumns.BATCH], _STEP_BITS)
                columns[_VERSION] = pc.add(batches, columns[ChangeColumns.ORDINAL].cast(pa.int64()))
            schema = self.schema(given.schema)
            yield pa.RecordBatch.from_arrays([columns[each.name].cast(each.type) for each in schema], schema=schema)

    def changes(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Changes from rows of files."""
        if (self.columns_as, self.format) == ("icefloe", "parquet"):
            return rows
        if self.columns_as == "debezium":
            return _changes(rows)
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        if self.columns_as == "delta":
            columns[ChangeColumns.TYPE] = _TYPES.take(pc.index_in(columns[ChangeColumns.TYPE], _DELTA_TYPES))
            versions = columns.pop(_VERSION)
            columns[ChangeColumns.BATCH] = pc.shift_right(versions, _STEP_BITS)
            columns[ChangeColumns.ORDINAL] = pc.bit_wise_and(versions, (1 << _STEP_BITS) - 1).cast(pa.int32())
        columns[ChangeColumns.SNAPSHOT_ID] = columns[ChangeColumns.SNAPSHOT_ID].cast(pa.int64())
        ours = {name: columns.pop(name) for name in ChangeColumns.ALL if name in columns}
        return pa.record_batch(ours | columns)

    def write(
        self,
        folder: Path,
        schema: pa.Schema,
        groups: Iterator[pa.Table],
        *,
        target_file_bytes: int,
        for_spark: bool,
    ) -> list[Path]:
        """As `write_parquet_files`."""
        if self.format == "parquet":
            most = target_file_bytes
            return write_parquet_files(folder, schema, groups, target_file_bytes=most, for_spark=for_spark)
        files = list[Path]()
        with on_local_disk(f"cannot keep the changes of a task in {folder} until they are whole"):
            for group in groups:
                if not files or files[-1].stat().st_size >= target_file_bytes:
                    files.append(folder / f"{len(files)}.jsonl")
                with files[-1].open("ab") as stream:
                    for batch in group.to_batches():
                        for rows in row_slices(batch, max_rows=_ROWS_AT_ONCE, max_bytes=_BYTES_AT_ONCE):
                            lines = row_texts(rows, self._json).cast(pa.large_binary()).to_pylist()
                            stream.write(b"".join(line + b"\n" for line in lines))
        return files

    def holds_same_rows(self, store: Store, key: str, file: Path) -> bool:
        """True if the stored file is whole and has the same rows in order."""
        if self.format == "parquet":
            return holds_same_rows(store, key, file)
        with on_local_disk("the changes of a task cannot be read back"), file.open("rb") as made:
            return store.size(key) == file.stat().st_size and all(
                piece == made.read(len(piece)) for piece in _pieces(store, key)
            )

    def read(
        self, store: Store, key: str, given: pa.Schema, values: Mapping[str, object] = MappingProxyType({})
    ) -> Iterator[pa.RecordBatch]:
        """The changes in a stored file.

        Args:
            given: as in `schema`; Parquet files have columns of their own.
            values: of its partition, as JSON.
        """
        written = self.written(whole := self.schema(given))
        gone = pa.schema([each for each in whole if each.name in values and each.name not in written.names])
        parsed = {each.name: parser(each.type, self._json)(values[each.name]) for each in gone}
        for rows in read_parquet(store, key) if self.format == "parquet" else self._parsed(store, key, written):
            ones = parsed_rows([parsed] * len(rows), gone)
            # Hashes of rows have the order of the columns.
            for before, each in zip(["", *whole.names], whole, strict=False):
                if each in gone:
                    rows = rows.add_column(rows.schema.get_field_index(before) + 1, each, ones.column(each.name))
            yield self.changes(rows)

    @property
    def _json(self) -> JsonForm:
        return JsonForm.DEBEZIUM if self.columns_as == "debezium" else JsonForm.READABLE

    def _parsed(self, store: Store, key: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        parse = parser(pa.struct(list(schema)), self._json)
        rest = b""
        # The end of a file that was cut is a line without its end.
        for piece in chain(_pieces(store, key), [b"\n"]):
            *lines, rest = (rest + piece).split(b"\n")
            try:
                rows = parsed_rows([parse(json.loads(line)) for line in lines if line], schema)
            except UNREADABLE as cause:
                raise TerminalError(f"{join_url(store.url, key)} is damaged ({one_line(cause)}): restore it") from cause
            yield rows


def _pieces(store: Store, key: str) -> Iterator[bytes]:
    size_bytes = store.size(key)
    if size_bytes is None:
        raise KeyMissingError.of(store.url, key)
    for start in range(0, size_bytes, _READ_BYTES):
        yield from store.get_ranges(key, [(start, min(start + _READ_BYTES, size_bytes))])


def _events(batch: ProvenBatch, events: EventRows, schema: pa.Schema) -> pa.RecordBatch:
    rows = events.rows
    shown = batch.shown_rows(rows)
    images = _struct(shown.cast(pa.schema(_nullable(shown.schema))))
    before, after = (images.take(pa.array(each, mask=each < 0)) for each in (events.befores, events.afters))
    # Of the commit, not of the delivery: a retry makes the same file.
    source = source_rows(batch, rows).take(pa.array(events.positions))
    kinds = pa.array(operations(batch)).take(pa.array(events.kinds))
    columns = [before, after, _struct(source), kinds, source.column("ts_ms")]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _nullable(fields: Iterable[pa.Field]) -> list[pa.Field]:
    """An image that is missing lacks required columns too."""
    return [
        each.with_nullable(True).with_type(
            pa.struct(_nullable(each.type)) if pa.types.is_struct(each.type) else each.type
        )
        for each in fields
    ]


def _struct(rows: pa.RecordBatch) -> pa.StructArray:
    return pa.StructArray.from_arrays(rows.columns, fields=list(rows.schema))


def _changes(events: pa.RecordBatch) -> pa.RecordBatch:
    #   event 0  before a  after b       rows of both images    a - b c      the changes    a b c
    #   event 1  -         after c       places                 0 1 2 3                     0 2 3
    before, after, count = events.column("before"), events.column("after"), events.num_rows
    is_there = np.stack([each.is_valid().to_numpy(zero_copy_only=False) for each in (before, after)], axis=1)
    # An update of `upsert` has no row before.
    is_update = pc.equal(events.column("op"), "u").to_numpy(zero_copy_only=False)
    kinds = np.where(is_update[:, None], [2, 3], [1, 0])[is_there]
    places = np.stack([np.arange(count), count + np.arange(count)], axis=1)[is_there]
    images = pa.RecordBatch.from_struct_array(pa.concat_arrays([before, after]).take(pa.array(places)))
    of_event = pa.array(places % max(count, 1))
    source = pa.RecordBatch.from_struct_array(events.column("source").take(of_event))
    ours: dict[str, Any] = {
        ChangeColumns.BATCH: source["batch"],
        ChangeColumns.TYPE: _TYPES.take(pa.array(kinds)),
        ChangeColumns.ORDINAL: source["ordinal"],
        ChangeColumns.SNAPSHOT_ID: source["snapshot_id"].cast(pa.int64()),
        ChangeColumns.TIMESTAMP: source["ts_us"].cast(pa.timestamp("us", "UTC")),
    }
    return pa.record_batch(ours | dict(zip(images.schema.names, images.columns, strict=True)))
