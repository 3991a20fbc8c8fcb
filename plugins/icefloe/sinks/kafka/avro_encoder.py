"""Messages in Avro, each with the id of its schema in a registry."""

import io
import json
from collections.abc import Mapping, Sequence

from fastavro import parse_schema, schemaless_writer

from icefloe.sinks.kafka.avro_registry import PREFIX, AvroRegistry
from icefloe.sinks.kafka.avro_schemas import avro_schema, to_avro
from icefloe.sinks.kafka.connect_schemas import ConnectSchema
from icefloe.sinks.kafka.encoder import Encoder, Messages
from icefloe.sinks.kafka.event_rows import EventRows


class AvroEncoder(Encoder):
    """Writes what an encoder of JSON makes. It takes about ten times as long: Avro has no columns to be joined.

    Args:
        registry: of the topic.
        inner: makes messages in Connect's JSON without schemas.
        schemas: Connect's schemas of ``key`` and ``value``.
    """

    def __init__(self, registry: AvroRegistry, inner: Encoder, schemas: Mapping[str, ConnectSchema]) -> None:
        self._inner = inner
        self._schemas = schemas
        self._writers = {of: _Writer(registry, of, schema) for of, schema in schemas.items() if schema["fields"]}

    @property
    def key_schema_id(self) -> int | None:
        """The id of the schema of keys; None for rows without identity."""
        key = self._writers.get("key")
        return None if key is None else key.schema_id

    def encode(self, events: EventRows) -> Messages:
        """One message an event."""
        messages = self._inner.encode(events)
        return Messages(keys=self._written("key", messages.keys), values=self._written("value", messages.values))

    def truncation(self) -> bytes | None:
        """As that of the inner encoder."""
        [message] = self._written("value", [self._inner.truncation()])
        return message

    def _written(self, of: str, texts: Sequence[bytes | None]) -> list[bytes | None]:
        return [None if text is None else self._writers[of].write(text) for text in texts]


class _Writer:
    def __init__(self, registry: AvroRegistry, of: str, connect: ConnectSchema) -> None:
        schema = avro_schema(connect)
        self._connect = connect
        self._parsed = parse_schema(schema)
        self.schema_id = registry.register(of, schema)
        self._prefix = PREFIX.pack(0, self.schema_id)

    def write(self, text: bytes) -> bytes:
        out = io.BytesIO()
        out.write(self._prefix)
        schemaless_writer(out, self._parsed, to_avro(json.loads(text), self._connect))
        return out.getvalue()
