"""Messages in Avro, each with the id of its schema in a registry."""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from typing import Any, Final, TypeVar

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from fastavro import parse_schema, schemaless_reader, schemaless_writer

from icefloe.errors import TerminalError, TransientError, one_line
from icefloe.sinks.kafka.avro_schemas import AvroSchema, avro_schema, to_avro
from icefloe.sinks.kafka.connect_schemas import ConnectSchema
from icefloe.sinks.kafka.encoder import Encoder, Messages
from icefloe.sinks.kafka.event_rows import EventRows

Answer = TypeVar("Answer")

_PREFIX: Final = Struct(">bI")
"""Confluent's wire format: a zero, then the id of the schema."""
_FIRST_SERVER_FAULT: Final = 500
_BUSY: Final = frozenset({408, 429})


class SchemaRefusedError(TerminalError):
    """The registry refuses a schema, or does not know one."""

    topic: str


class RegistrySilentError(TransientError):
    """The registry did not answer."""

    topic: str


class AvroRegistry:
    """The schemas of one topic: subjects ``<topic>-key`` and ``<topic>-value``."""

    def __init__(self, topic: str, configuration: Mapping[str, Any]) -> None:
        self._topic = topic
        self._client = SchemaRegistryClient.new_client(dict(configuration))
        self._parsed: dict[int, Any] = {}

    def register(self, of: str, schema: AvroSchema) -> int:
        """The id of a schema.

        Args:
            of: ``key`` or ``value``.
            schema: in Avro.

        Raises:
            SchemaRefusedError: it is not compatible with the one before.
            RegistrySilentError: no answer.
        """
        text = Schema(json.dumps(schema), "AVRO")
        return self._ask(lambda: self._client.register_schema(f"{self._topic}-{of}", text))

    def read(self, message: bytes) -> Any:
        """The value of a message, as fastavro has it."""
        _, number = _PREFIX.unpack_from(message)
        if number not in self._parsed:
            self._parsed[number] = parse_schema(
                json.loads(self._ask(lambda: self._client.get_schema(number)).schema_str)
            )
        return schemaless_reader(io.BytesIO(message[_PREFIX.size :]), self._parsed[number], None)

    def _ask(self, call: Callable[[], Answer]) -> Answer:
        try:
            return call()
        except SchemaRegistryError as cause:
            if cause.http_status_code in _BUSY or cause.http_status_code >= _FIRST_SERVER_FAULT:
                raise self._silent(cause) from cause
            raise SchemaRefusedError(
                f"the schema registry refuses the schemas of topic {self._topic} ({one_line(cause)}): set the "
                "compatibility of its subjects to what the table's changes need, or deliver to another sink.topic",
                topic=self._topic,
            ) from cause
        except Exception as cause:
            # The client raises the errors of whatever HTTP library it has.
            raise self._silent(cause) from cause

    def _silent(self, cause: Exception) -> RegistrySilentError:
        return RegistrySilentError(
            f"the schema registry of topic {self._topic} did not answer ({one_line(cause)}): see that it runs and that "
            "sink.schema_registry.url names it, then run again", topic=self._topic,
        )  # fmt: skip


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
        self._prefix = _PREFIX.pack(0, self.schema_id)

    def write(self, text: bytes) -> bytes:
        out = io.BytesIO()
        out.write(self._prefix)
        schemaless_writer(out, self._parsed, to_avro(json.loads(text), self._connect))
        return out.getvalue()
