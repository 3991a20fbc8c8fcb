"""Schemas and values of Avro, with the logical names of Kafka Connect and Debezium, and their registry."""

import io
import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from struct import Struct
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar

import pyarrow as pa
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from fastavro import parse_schema, schemaless_reader

from icefloe.changes.columns import ChangeColumns
from icefloe.errors import TerminalError, TransientError, one_line
from icefloe.pipeline.url import is_address
from icefloe.sinks.batch_to_deliver import ProvenBatch
from icefloe.sinks.events import source_schema
from icefloe.sinks.json_texts import avro_name, is_binary_type, is_text_type

_TIMES: Final[Mapping[str, str]] = {
    "date32[day]": "Date",
    "time64[us]": "MicroTime",
    "time64[ns]": "NanoTime",
    "timestamp[us]": "MicroTimestamp",
    "timestamp[ns]": "NanoTimestamp",
}
AvroSchema: TypeAlias = str | list[Any] | dict[str, Any]
"""A type by its name, a union, or a type with its keys, as JSON."""
_SOURCE_NAME: Final = "io.debezium.connector.icefloe.Source"
_BLOCK_NAME: Final = "event.block"
_NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})
Answer = TypeVar("Answer")
_PREFIX: Final = Struct(">bI")
"""Confluent's wire format: a zero, then the id of the schema."""
REGISTRY: Final = "schema.registry."
"""Settings of the registry's client begin with it in the extra of a connection."""
_BUSY: Final = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
_FIRST_OWN_CODE: Final = 10_000
"""A registry's own codes have five digits, and those of any web server are an HTTP status."""


def value_schema(batch: ProvenBatch, *, is_debezium: bool) -> pa.Schema:
    """The columns of a message: Debezium's envelope, or the row with its change columns."""
    if not is_debezium:
        return pa.schema(
            field.with_type(pa.string()) if field.name == ChangeColumns.SNAPSHOT_ID else field
            for field in batch.given_schema
        )
    image = pa.struct(list(batch.shown_schema))
    return pa.schema([
        pa.field("before", image),
        pa.field("after", image),
        pa.field("source", pa.struct(list(source_schema(batch.schema))), nullable=False),
        pa.field("op", pa.string(), nullable=False),
        *(pa.field(time, pa.int64()) for time in ("ts_ms", "ts_us", "ts_ns")),
        pa.field("transaction", _TRANSACTION),
    ])  # fmt: skip


_TRANSACTION: Final = pa.struct([
    pa.field("id", pa.string(), nullable=False),
    pa.field("total_order", pa.int64(), nullable=False),
    pa.field("data_collection_order", pa.int64(), nullable=False),
])  # fmt: skip


def avro_schema(of: str, columns: pa.Schema, *, batch: ProvenBatch, is_debezium: bool) -> AvroSchema:
    """The Avro schema of ``key`` or ``value``."""
    table = f"{batch.origin.pipeline}.{batch.origin.table}"
    if of == "key":
        return record_schema(columns, f"{table}.Key")
    if not is_debezium:
        return record_schema(columns, f"{table}.Value")
    envelope = f"{table}.Envelope"
    names = {"before": f"{table}.Value", "after": f"{table}.Value", "source": _SOURCE_NAME, "transaction": _BLOCK_NAME}
    return record_schema(columns, envelope, {f"{envelope}.{column}": name for column, name in names.items()})


def record_schema(columns: pa.Schema, name: str, names: Mapping[str, str] = _NO_NAMES) -> AvroSchema:
    """The record of some columns; a column that may be null is a union with null.

    Args:
        names: of records inside, by their path, which is their name otherwise.

    >>> record_schema(pa.schema([pa.field("on", pa.date32(), nullable=False)]), "t.Key")["fields"]
    [{'name': 'on', 'type': {'type': 'int', 'connect.name': 'io.debezium.time.Date'}}]
    """
    return _Schemas(names).record(columns, name)


class _Schemas:
    """Avro names each record once; later mentions are the name alone."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._known: dict[str, pa.Schema] = {}

    def record(self, columns: pa.Schema, path: str) -> AvroSchema:
        given = self._names.get(path, path)
        name = ".".join(avro_name(part) for part in given.split("."))
        if name in self._known:
            if not self._known[name].equals(columns):
                raise _ambiguous("two structs", name)
            return name
        self._known[name] = columns
        fields: list[AvroSchema] = []
        taken: dict[str, str] = {}
        for column in columns:
            written = avro_name(column.name)
            if (other := taken.setdefault(written, column.name)) != column.name:
                raise _ambiguous(f"columns {other} and {column.name}", written)
            own = {"name": written, "type": self._union(column, f"{given}.{column.name}")}
            fields.append({**own, "default": None} if column.nullable else own)
        return {"type": "record", "name": name, "fields": fields}

    def _union(self, field: pa.Field, path: str) -> AvroSchema:
        own = self._type(field.type, path)
        return ["null", own] if field.nullable else own

    def _type(self, kind: pa.DataType, path: str) -> AvroSchema:
        if isinstance(kind, pa.BaseExtensionType):
            return {"type": "string", "connect.name": "io.debezium.data.Uuid"}
        if str(kind) in _TIMES:
            plain = "int" if pa.types.is_date(kind) else "long"
            return {"type": plain, "connect.name": f"io.debezium.time.{_TIMES[str(kind)]}"}
        if pa.types.is_timestamp(kind):
            return {"type": "string", "connect.name": "io.debezium.time.ZonedTimestamp"}
        if pa.types.is_decimal(kind):
            return {
                "type": "bytes", "logicalType": "decimal", "scale": kind.scale, "precision": kind.precision,
                "connect.name": "org.apache.kafka.connect.data.Decimal",
            }  # fmt: skip
        if pa.types.is_struct(kind):
            return self.record(pa.schema(list(kind)), path)
        if pa.types.is_map(kind):
            if is_text_type(kind.key_type):
                return {"type": "map", "values": self._union(kind.item_field, f"{path}.value")}
            # Avro's maps have texts as keys.
            fields = [kind.key_field.with_name("key"), kind.item_field.with_name("value")]
            return {"type": "array", "items": self.record(pa.schema(fields), f"{path}.Entry")}
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            return {"type": "array", "items": self._union(kind.value_field, f"{path}.element")}
        return _plain(kind, path)


def _plain(kind: pa.DataType, path: str) -> str:
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind):
        return "long" if kind.bit_width == 64 else "int"
    if pa.types.is_floating(kind):
        return "float" if kind.bit_width == 32 else "double"
    if is_binary_type(kind):
        return "bytes"
    if is_text_type(kind) or pa.types.is_null(kind):
        return "string"
    column = path.rpartition(".")[2]
    raise TerminalError(
        f"column {column} has type {kind}, which Avro of sink kafka cannot say: leave it out", column=column
    )


def _ambiguous(columns: str, name: str) -> TerminalError:
    return TerminalError(
        f"{columns} are both {name} in Avro: rename one of them, leave one out of columns, or set sink.format to json",
    )


class AvroRegistry:
    """The subjects ``<topic>-key`` and ``<topic>-value``."""

    def __init__(self, topic: str, configuration: Mapping[str, Any]) -> None:
        self._topic = topic
        self._client = _client(configuration)
        self._parsed: dict[int, Any] = {}

    def check(self) -> None:
        """Ask for the subjects; delivery needs no right to look them up."""
        if not isinstance(self._ask(self._subjects), list):
            raise self._no_registry("it answers in another form")

    def register(self, of: str, schema: AvroSchema) -> tuple[int, Callable[[Any], bytes]]:
        """The id of an Avro schema of ``key`` or ``value``, and what writes a value as a message; it asks nothing."""
        subject, ours = f"{self._topic}-{of}", Schema(json.dumps(schema), "AVRO")
        found = self._ask(lambda: self._client.register_schema_full_response(subject, ours))
        # The serializer registers its schema too, and the client answers for a text that the registry has answered.
        known = found.schema if found.schema.schema_str else ours
        conf = {"auto.register.schemas": True, "subject.name.strategy": lambda *_: subject}
        return found.schema_id, AvroSerializer(self._client, known, conf=conf)

    def read(self, message: bytes) -> Any:
        """The value of a message, as fastavro has it."""
        _, number = _PREFIX.unpack_from(message)
        if number not in self._parsed:
            text = self._ask(lambda: self._client.get_schema(number)).schema_str
            self._parsed[number] = parse_schema(json.loads(text or ""))
        return schemaless_reader(io.BytesIO(message[_PREFIX.size :]), self._parsed[number], None)

    def _subjects(self) -> object:
        try:
            return self._client.get_subjects()
        except SchemaRegistryError as answer:
            if answer.http_status_code != HTTPStatus.FORBIDDEN:
                raise
            return []

    def _ask(self, call: Callable[[], Answer]) -> Answer:
        try:
            return call()
        except SchemaRegistryError as cause:
            raise self._error_of(cause) from cause
        except Exception as cause:
            # The client raises the errors of whatever HTTP library it has.
            raise self._silent(cause) from cause

    def _error_of(self, cause: SchemaRegistryError) -> TerminalError | TransientError:
        status, said = cause.http_status_code, one_line(cause)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _BUSY:
            return self._silent(cause)
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            return TerminalError(
                f"the schema registry refuses the user for the schemas of topic {self._topic} ({said}): correct "
                "schema.registry.basic.auth.user.info in the extra of the connection of sink.conn_id, or give the user "
                "the right to write these subjects"
            )
        if status != HTTPStatus.CONFLICT and (cause.error_code or 0) < _FIRST_OWN_CODE:
            return self._no_registry(said)
        return TerminalError(
            f"the schema registry refuses the schemas of topic {self._topic} ({said}): set the "
            "compatibility of its subjects to what the table's changes need, or deliver to another sink.topic"
        )

    def _no_registry(self, fault: str) -> TerminalError:
        return TerminalError(
            f"sink.schema_registry.url leads to no schema registry ({fault}): correct it, with the path at which a "
            "proxy serves the registry",
            key="sink.schema_registry.url",
        )

    def _silent(self, cause: Exception) -> TransientError:
        return TransientError(
            f"the schema registry of topic {self._topic} did not answer ({one_line(cause)}): see that it "
            "runs and that sink.schema_registry.url names it, then run again"
        )


def _client(configuration: Mapping[str, Any]) -> SchemaRegistryClient:
    """The registry's client. Errors quote no address, which may hold a password."""
    if not is_address(str(configuration["url"]), "mock", "http", "https", is_list=True):
        raise TerminalError(
            "sink.schema_registry.url is not the URL of a schema registry: write one such as "
            "https://registry.example:8081",
            key="sink.schema_registry.url",
        )
    try:
        # The client takes any timeout, and would fail at each request.
        float(configuration.get("timeout", 0))
        return SchemaRegistryClient.new_client(dict(configuration))
    except Exception as cause:
        raise TerminalError(
            f"{REGISTRY}* in the extra of the connection of sink.conn_id does not fit the registry's client, or a file "
            f"that it names cannot be read ({one_line(cause)}): correct it",
            key="sink.conn_id",
        ) from cause
