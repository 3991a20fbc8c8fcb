"""Messages by a sink's options, and back."""

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby
from time import time_ns
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Message
from fastavro import parse_schema, schemaless_writer
from numpy.typing import NDArray

from icefloe.changes.columns import CHANGE_COLUMNS, COMMIT_SNAPSHOT_ID, ChangeType
from icefloe.errors import TerminalError, one_line
from icefloe.sinks.batch_to_deliver import ProvenBatch
from icefloe.sinks.json_texts import TEXT, JsonForm, joined, row_texts
from icefloe.sinks.kafka.events import EventRows, EventSource, key_rows, key_schema, widened
from icefloe.sinks.kafka.kafka_clients import KafkaClients
from icefloe.sinks.kafka.kafka_options import KafkaOptions
from icefloe.sinks.kafka.retained import RetainedChanges, batch_of, is_change, json_payload, key_text
from icefloe.sinks.kafka.schemas import (
    PREFIX,
    AvroRegistry,
    ConnectSchema,
    avro_schema,
    connect_schemas,
    struct_schema,
    to_avro,
)
from icefloe.sinks.sink import SchemaOf

_NOTHING: Final = pa.scalar(None, TEXT)
_OPERATIONS: Final[Mapping[int, str]] = {ChangeType.INSERT: "c", ChangeType.DELETE: "d", ChangeType.UPDATE_AFTER: "u"}


class Messages(NamedTuple):
    """Keys and values; no key without identity, no value for a deleted row."""

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]


class Encoder:
    """Encodes events of one batch as messages, one an event.

    Avro takes about ten times as long as JSON: it has no columns to be joined.

    Args:
        schemas: Connect's, of ``key`` and ``value``; None: messages carry none.
        registry: for Avro; None: messages are JSON.
        is_debezium: False: rows with their change columns.
    """

    def __init__(
        self,
        batch: ProvenBatch,
        form: JsonForm,
        schemas: Mapping[str, ConnectSchema] | None = None,
        registry: AvroRegistry | None = None,
        *,
        is_debezium: bool,
    ) -> None:
        self._batch = batch
        self._form = form
        self._schemas = schemas or {}
        self._is_debezium = is_debezium
        self._key = key_schema(batch)
        self._writers: dict[str, _Writer] = {}
        if registry is not None:
            self._writers = {
                of: _Writer(registry, of, schema) for of, schema in self._schemas.items() if schema["fields"]
            }

    @property
    def key_schema_id(self) -> int | None:
        """The registry's id in the bytes of each key; None: they have none."""
        return self._writers["key"].schema_id if "key" in self._writers else None

    def encode(self, events: EventRows) -> Messages:
        """The messages of events, in order; the sender adds tombstones."""
        keys: Sequence[bytes | None] = [None] * len(events.kinds)
        if self._key.names:
            rows = key_rows(events.rows.take(pa.array(events.positions)), self._key)
            keys = self._messages("key", row_texts(rows, self._form))
        return Messages(
            keys, self._messages("value", self._envelopes(events) if self._is_debezium else self._rows(events))
        )

    def truncation(self) -> bytes | None:
        """A ``t`` event: earlier rows of the partition are gone; None: plain rows cannot say it."""
        if not self._is_debezium:
            return None
        now = time_ns()
        source = EventSource.of(self._batch).truncation(self._batch.up_to_snapshot_id, now // 10**6)
        times = {"ts_ms": now // 10**6, "ts_us": now // 10**3, "ts_ns": now}
        payload = {"before": None, "after": None, "source": source, "op": "t", **times, "transaction": None}
        return self._messages("value", pa.array([_compact(payload)], TEXT))[0]

    def _envelopes(self, events: EventRows) -> pa.Array:
        images = row_texts(self._batch.shown_rows(events.rows), self._form)
        sources = row_texts(EventSource.of(self._batch).rows(events.rows), self._form).take(pa.array(events.positions))
        operations = pa.array(["r" if self._batch.is_load else _OPERATIONS.get(kind, "") for kind in ChangeType], TEXT)
        orders, now = pa.array(events.orders).cast(TEXT), time_ns()
        return joined(
            _text('{"before":'), _image(images, events.befores),
            _text(',"after":'), _image(images, events.afters),
            _text(',"source":'), sources,
            _text(',"op":"'), operations.take(pa.array(events.kinds)),
            _text(f'","ts_ms":{now // 10**6},"ts_us":{now // 10**3},"ts_ns":{now},"transaction":{{"id":'
                  f'"{self._batch.batch_number}","total_order":'), orders,
            _text(',"data_collection_order":'), orders, _text("}}"),
        )  # fmt: skip

    def _rows(self, events: EventRows) -> pa.Array:
        rows = events.rows.take(pa.array(events.positions))
        columns = {name: rows.column(name) for name in CHANGE_COLUMNS}
        # Readers of JSON round numbers above 2^53.
        columns[COMMIT_SNAPSHOT_ID] = columns[COMMIT_SNAPSHOT_ID].cast(pa.string())
        shown = self._batch.shown_rows(rows)
        message = pa.record_batch({**columns, **dict(zip(shown.schema.names, shown.columns, strict=True))})
        texts = row_texts(message, self._form)
        # Without a key, nobody would know which row is gone.
        return pc.if_else(pa.array(events.kinds == ChangeType.DELETE), _NOTHING, texts) if self._key.names else texts

    def _messages(self, of: str, texts: pa.Array) -> list[bytes | None]:
        writer = self._writers.get(of)
        if self._schemas and writer is None:
            texts = joined(_text(f'{{"schema":{_compact(self._schemas[of])},"payload":'), texts, _text("}"))
        messages = texts.cast(pa.large_binary()).to_pylist()
        return messages if writer is None else [None if each is None else writer.write(each) for each in messages]


def _image(images: pa.Array, positions: NDArray[np.int64]) -> pa.Array:
    taken = images.take(pa.array(positions, mask=positions < 0))
    return pc.fill_null(taken, _text("null"))


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _text(text: str) -> pa.Scalar:
    return pa.scalar(text, TEXT)


class _Writer:
    def __init__(self, registry: AvroRegistry, of: str, connect: ConnectSchema) -> None:
        schema = avro_schema(connect)
        self._connect = connect
        self._parsed = parse_schema(schema)
        self.schema_id = registry.register(of, schema)
        self._prefix = PREFIX.pack(0, self.schema_id)

    # Not by the client's AvroSerializer: it gives the same bytes and takes 1.5 times as long for each message.
    def write(self, text: bytes) -> bytes:
        out = io.BytesIO()
        out.write(self._prefix)
        schemaless_writer(out, self._parsed, to_avro(json.loads(text), self._connect))
        return out.getvalue()


@dataclass(kw_only=True)
class MessageFormat:
    """Envelope and format of one topic."""

    options: KafkaOptions
    clients: KafkaClients

    def check(self) -> None:
        """Ask the registry, if messages need one; errors as `AvroRegistry.check`."""
        if self._is_avro:
            self._registry.check()

    def encoder(self, batch: ProvenBatch) -> Encoder:
        """Writes the messages of a batch."""
        schemas = connect_schemas(batch, is_debezium=self._is_debezium) if self.options.has_schemas else None
        registry = self._registry if self._is_avro else None
        return Encoder(batch, self._form, schemas, registry, is_debezium=self._is_debezium)

    def changes(self, schema: pa.Schema) -> RetainedChanges:
        """Reads messages back."""
        if self._is_avro:
            return RetainedChanges(schema, JsonForm.AVRO, self._registry.read, is_debezium=self._is_debezium)
        payload = partial(json_payload, has_schema=self.options.json_schema)
        return RetainedChanges(schema, self._form, payload, is_debezium=self._is_debezium)

    def changes_as_written(
        self, messages: Iterable[Message], schema_of: SchemaOf, *, first_batch: int
    ) -> Iterator[pa.RecordBatch]:
        """Reads messages back, each by the schema of its batch; arguments as in `Sink`."""
        any_columns = self.changes(pa.schema([]))
        for number, group in groupby(filter(is_change, messages), batch_of):
            if number >= first_batch:
                found = list(group)
                # Avro has other names for columns, which say nothing about those of the table.
                names = () if self._is_avro else any_columns.names(found)
                try:
                    rows = self.changes(schema_of(number, names)).rows(found)
                except (ArithmeticError, AttributeError, TypeError, ValueError) as cause:
                    raise TerminalError(
                        f"batch {number} in topic {self.options.topic} has values of other types than the columns of "
                        f"these names ({one_line(cause)}), and the snapshot with its schema has expired: it can no "
                        "longer be verified"
                    ) from cause
                yield rows

    def keys(self, rows: pa.RecordBatch) -> set[str]:
        """Keys of rows, as messages have them."""
        schema = widened(rows.schema)
        found = [json.loads(text) for text in row_texts(key_rows(rows, schema), self._form).to_pylist()]
        if self._is_avro:
            found = [to_avro(key, struct_schema(schema, name="key")) for key in found]
        return {key_text(key) for key in found}

    @cached_property
    def _registry(self) -> AvroRegistry:
        return AvroRegistry(self.options.topic, self.clients.registry)

    @property
    def _is_avro(self) -> bool:
        return self.options.format == "avro"

    @property
    def _is_debezium(self) -> bool:
        return self.options.envelope == "debezium"

    @property
    def _form(self) -> JsonForm:
        if self.options.has_schemas:
            return JsonForm.CONNECT
        return JsonForm.DEBEZIUM if self._is_debezium else JsonForm.READABLE
