"""Messages by a sink's options, and back."""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from time import time_ns
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Message

from icefloe.changes.columns import ChangeColumns, ChangeType
from icefloe.errors import TerminalError, one_line
from icefloe.sinks.batch_to_deliver import ProvenBatch, column_paths, column_type
from icefloe.sinks.events import (
    BATCH_HEADER,
    PIPELINE_HEADER,
    SNAPSHOT_HEADER,
    EventRows,
    key_rows,
    key_schema,
    operations,
    source_rows,
    widened,
)
from icefloe.sinks.json_texts import TEXT, UNREADABLE, JsonForm, avro_name, object_texts, parsed_rows, parser, row_texts
from icefloe.sinks.kafka.kafka_clients import KafkaClients, KafkaOptions
from icefloe.sinks.kafka.schemas import AvroRegistry, AvroSchema, avro_schema, value_schema
from icefloe.sinks.sink import SchemaOf

_NOTHING: Final = pa.scalar(None, TEXT)
_NULL: Final = "null"
_Texts: TypeAlias = pa.Array | str


class MessageFormat:
    """Envelope and format of one topic."""

    def __init__(self, options: KafkaOptions, clients: KafkaClients) -> None:
        self.is_debezium = options.envelope == "debezium"  # False: rows with their change columns
        self.registry = AvroRegistry(options.topic, clients.registry) if options.format == "avro" else None
        is_plain_json = not self.is_debezium and self.registry is None
        self.form = JsonForm.READABLE if is_plain_json else JsonForm.DEBEZIUM
        self._topic = options.topic

    def payload(self, message: bytes | None) -> Any:
        """The value or key in a message."""
        if message is None:
            return None
        return json.loads(message) if self.registry is None else self.registry.read(message)

    def key(self, message: Message) -> str | None:
        """The key of a change, as in `keys`; None for messages of other programs."""
        if not is_change(message):
            return None
        with self._reading(batch_of(message)):
            return key_text(self.payload(message.key()))

    def changes_as_written(
        self, messages: Iterable[Message], schema_of: SchemaOf, *, first_batch: int
    ) -> Iterator[pa.RecordBatch]:
        """Reads messages back, each by the schema of its batch; arguments as in `Sink`."""
        for number, group in groupby(filter(is_change, messages), batch_of):
            if number >= first_batch:
                changes, found = RetainedChanges(self, schema_of(number)), list(group)
                with self._reading(number):
                    rows = changes.rows(found)
                yield rows

    @contextmanager
    def _reading(self, number: int) -> Iterator[None]:
        try:
            yield
        except UNREADABLE as cause:
            raise TerminalError(
                f"batch {number} in topic {self._topic} has messages that do not have the columns of its schema "
                f"({one_line(cause)}): it cannot be verified"
            ) from cause

    def keys(self, rows: pa.RecordBatch) -> set[str]:
        """Keys of rows, as messages have them."""
        schema = widened(rows.schema)
        found = [json.loads(text) for text in row_texts(key_rows(rows, schema), self.form).to_pylist()]
        if self.registry is not None:
            found = [*map(parser(pa.struct(list(schema)), JsonForm.TO_AVRO), found)]
        return {key_text(key) for key in found}


class Encoder:
    """Encodes events of one batch as messages, one an event. Avro takes about ten times as long as JSON."""

    def __init__(self, format_: MessageFormat, batch: ProvenBatch) -> None:
        self._batch = batch
        self._form, self._is_debezium = format_.form, format_.is_debezium
        self._key = key_schema(batch)
        self._writers: dict[str, _Writer] = {}
        if format_.registry is not None:
            columns = {"key": self._key, "value": value_schema(batch, is_debezium=self._is_debezium)}
            for of, schema in columns.items():
                if schema.names:
                    written = avro_schema(of, schema, batch=batch, is_debezium=self._is_debezium)
                    self._writers[of] = _Writer(format_.registry, of, schema, written)

    @property
    def key_schema_id(self) -> int | None:
        """The registry's id in the bytes of each key; None: they have none."""
        return self._writers["key"].schema_id if "key" in self._writers else None

    def encode(self, events: EventRows) -> tuple[Sequence[bytes | None], Sequence[bytes | None]]:
        """Keys and values of the messages of events, in order; the sender adds tombstones.

        No key without identity; no value for a deleted row, unless the envelope has one.
        """
        keys: Sequence[bytes | None] = [None] * len(events.kinds)
        if self._key.names:
            rows = key_rows(events.rows.take(pa.array(events.positions)), self._key)
            keys = self._messages("key", row_texts(rows, self._form))
        return keys, self._messages("value", self._events(events) if self._is_debezium else self._rows(events))

    def truncation(self) -> bytes | None:
        """A ``t`` event: earlier rows of the partition are gone."""
        if not self._is_debezium:
            raise TerminalError(
                "the topic has rows from before this load, and sink.envelope: plain cannot say that they are gone: "
                "give sink.topic another name, or use envelope: debezium"
            )
        change = {
            ChangeColumns.SNAPSHOT_ID: pa.array([self._batch.up_to_snapshot_id], pa.int64()),
            ChangeColumns.TIMESTAMP: pa.array([time_ns() // 10**3]),
            ChangeColumns.ORDINAL: pa.array([0], pa.int32()),
        }
        sources = row_texts(source_rows(self._batch, pa.record_batch(change)), self._form)
        return self._messages("value", _envelopes(_NULL, _NULL, sources, '"t"', _NULL))[0]

    def _events(self, events: EventRows) -> pa.Array:
        images = row_texts(self._batch.shown_rows(events.rows), self._form)
        sources = row_texts(source_rows(self._batch, events.rows), self._form).take(pa.array(events.positions))
        kinds = pa.array([f'"{each}"' for each in operations(self._batch)], TEXT)
        number, orders = f'"{self._batch.batch_number}"', pa.array(events.orders).cast(TEXT)
        transactions = object_texts(
            [("id", number), ("total_order", orders), ("data_collection_order", orders)], len(orders)
        )
        before, after = (
            pc.fill_null(images.take(pa.array(each, mask=each < 0)), _NULL) for each in (events.befores, events.afters)
        )
        return _envelopes(before, after, sources, kinds.take(pa.array(events.kinds)), transactions)

    def _rows(self, events: EventRows) -> pa.Array:
        rows = events.rows.take(pa.array(events.positions))
        given = self._batch.given_rows(rows)
        # Readers of JSON round numbers above 2^53.
        snapshot_ids = given.column(ChangeColumns.SNAPSHOT_ID).cast(pa.string())
        message = given.set_column(
            given.schema.names.index(ChangeColumns.SNAPSHOT_ID), ChangeColumns.SNAPSHOT_ID, snapshot_ids
        )
        texts = row_texts(message, self._form)
        # Without a key, nobody would know which row is gone.
        return pc.if_else(pa.array(events.kinds == ChangeType.DELETE), _NOTHING, texts) if self._key.names else texts

    def _messages(self, of: str, texts: pa.Array) -> list[bytes | None]:
        writer = self._writers.get(of)
        messages = texts.cast(pa.large_binary()).to_pylist()
        return messages if writer is None else [None if each is None else writer.write(each) for each in messages]


class _Writer:
    def __init__(self, registry: AvroRegistry, of: str, columns: pa.Schema, schema: AvroSchema) -> None:
        self._value = parser(pa.struct(list(columns)), JsonForm.TO_AVRO)
        self.schema_id, self._serialize = registry.register(of, schema)

    def write(self, text: bytes) -> bytes:
        return self._serialize(self._value(json.loads(text)))


def _envelopes(before: _Texts, after: _Texts, sources: pa.Array, operations: _Texts, transactions: _Texts) -> pa.Array:
    now = time_ns()
    times = [(name, str(now // unit)) for name, unit in (("ts_ms", 10**6), ("ts_us", 10**3), ("ts_ns", 1))]
    images = [("before", before), ("after", after), ("source", sources), ("op", operations)]
    return object_texts([*images, *times, ("transaction", transactions)], len(sources))


class RetainedChanges:
    """Reads changes out of messages."""

    def __init__(self, format_: MessageFormat, schema: pa.Schema) -> None:
        self._schema = schema
        self._payload = format_.payload
        self._read = self._debezium if format_.is_debezium else self._plain
        self._form = form = format_.form if format_.registry is None else JsonForm.FROM_AVRO
        paths = {".".join(path): path for path in column_paths(schema)}
        self._key_columns = {
            self._written(name): (path, parser(column_type(schema, name), form)) for name, path in paths.items()
        }
        self._parsers = {each.name: (self._written(each.name), parser(each.type, form)) for each in schema}

    def rows(self, messages: Sequence[Message]) -> pa.RecordBatch:
        """The changes of messages with a change: two rows for an update."""
        return parsed_rows([row for message in messages for row in self._read(message)], self._schema)

    def _debezium(self, message: Message) -> Iterator[dict[str, object]]:
        payload = self._payload(message.value())
        if payload is None:
            return
        source, before, after = payload["source"], payload["before"], payload["after"]
        change = {
            ChangeColumns.BATCH: source["batch"],
            ChangeColumns.ORDINAL: source["ordinal"],
            ChangeColumns.SNAPSHOT_ID: int(source["snapshot_id"]),
            ChangeColumns.TIMESTAMP: source["ts_us"],
        }
        kinds = (ChangeType.UPDATE_BEFORE, ChangeType.UPDATE_AFTER)
        if payload["op"] != "u":
            kinds = (ChangeType.DELETE, ChangeType.INSERT)
        for kind, image in zip(kinds, (before, after), strict=True):
            if image is not None:
                yield {**change, ChangeColumns.TYPE: kind.name, **self._columns(image)}

    def _plain(self, message: Message) -> Iterator[dict[str, object]]:
        row = self._payload(message.value())
        if row is None:
            headers = dict(message.headers() or [])
            key = self._payload(message.key()) or {}
            yield {
                ChangeColumns.BATCH: int(headers[BATCH_HEADER]),
                ChangeColumns.TYPE: ChangeType.DELETE.name,
                ChangeColumns.SNAPSHOT_ID: int(headers[SNAPSHOT_HEADER]),
                **self._key_row(key),
            }
            return
        row[ChangeColumns.SNAPSHOT_ID] = int(row[ChangeColumns.SNAPSHOT_ID])
        yield self._columns(row)

    def _columns(self, image: dict[str, object]) -> dict[str, object]:
        found = self._parsers.items()
        return {name: parse(image[written]) for name, (written, parse) in found if written in image}

    def _key_row(self, key: dict[str, object]) -> dict[str, object]:
        row: dict[str, Any] = {}
        for written in key.keys() & self._key_columns.keys():
            (*outer, name), parse = self._key_columns[written]
            inside = row
            for each in outer:
                inside = inside.setdefault(each, {})
            inside[name] = parse(key[written])
        return row

    def _written(self, name: str) -> str:
        return avro_name(name) if self._form is JsonForm.FROM_AVRO else name


def key_text(key: object) -> str:
    """The same text for equal keys."""
    return json.dumps(key, ensure_ascii=False, default=repr)


def batch_of(message: Message) -> int:
    """The number of the batch of a change."""
    return int(dict(message.headers() or [])[BATCH_HEADER])


def is_change(message: Message) -> bool:
    """True for messages of this sink, except truncations."""
    headers = dict(message.headers() or [])
    return {PIPELINE_HEADER, SNAPSHOT_HEADER} <= headers.keys() and (headers.get(BATCH_HEADER) or b"").isdigit()
