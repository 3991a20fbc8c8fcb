"""Schemas of Kafka Connect, of Avro, and in a registry."""

import io
import json
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from struct import Struct
from typing import Any, Final, TypeAlias, TypedDict, TypeVar
from urllib.parse import urlsplit

import pyarrow as pa
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from fastavro import parse_schema, schemaless_reader

from icefloe.changes.columns import ChangeColumns
from icefloe.errors import TerminalError, TransientError, one_line
from icefloe.pipeline.url import is_address
from icefloe.sinks.batch_to_deliver import ProvenBatch
from icefloe.sinks.json_texts import EXACT, avro_name
from icefloe.sinks.kafka.events import SOURCE, key_schema

_TIMES: Final[Mapping[str, str]] = {
    "date32[day]": "Date",
    "time64[us]": "MicroTime",
    "time64[ns]": "NanoTime",
    "timestamp[us]": "MicroTimestamp",
    "timestamp[ns]": "NanoTimestamp",
}
_TYPES: Final[Mapping[str, str]] = {
    "int8": "int", "int16": "int", "int32": "int", "int64": "long", "float": "float", "double": "double",
    "boolean": "boolean", "string": "string", "bytes": "bytes",
}  # fmt: skip
AvroSchema: TypeAlias = str | list[Any] | dict[str, Any]
"""A type by its name, a union, or a type with its keys, as JSON."""
_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
Answer = TypeVar("Answer")
PREFIX: Final = Struct(">bI")
"""Confluent's wire format: a zero, then the id of the schema."""
REGISTRY: Final = "schema.registry."
"""Settings of the registry's client begin with it in the extra of a connection."""
_SCHEMES: Final = ("mock", "http", "https")
_PROXIES: Final = ("http", "https", "socks5", "socks5h")
_FIRST_SERVER_FAULT: Final = 500
_BUSY: Final = frozenset({408, 429})
_DENIED: Final = frozenset({401, 403})
_ELSEWHERE: Final = frozenset({301, 302, 303, 307, 308, 404, 405})
_FIRST_OWN_CODE: Final = 10_000
"""A registry's own codes have five digits, and those of any web server are an HTTP status."""
_NO_RIGHT: Final = 403


class ConnectSchema(TypedDict, total=False):
    """A schema of Kafka Connect as JSON.

    Attributes:
        type: such as ``int64``, ``struct``, ``array``, ``map``.
        optional: True if null is a value.
        name: of a struct, or of a logical type.
        field: of the struct whose schema this is.
    """

    type: str
    optional: bool
    name: str
    version: int
    parameters: Mapping[str, str]
    field: str
    fields: Sequence["ConnectSchema"]
    items: "ConnectSchema"
    keys: "ConnectSchema"
    values: "ConnectSchema"


def connect_schemas(batch: ProvenBatch, *, is_debezium: bool) -> Mapping[str, ConnectSchema]:
    """Schemas of ``key`` and ``value``, in Debezium's envelope or not."""
    name = f"{batch.origin.pipeline}.{batch.origin.table}"
    key = struct_schema(key_schema(batch), name=f"{name}.Key")
    if not is_debezium:
        changes = [batch.schema.field(column) for column in ChangeColumns.ALL]
        changes = [
            field.with_type(pa.string()) if field.name == ChangeColumns.SNAPSHOT_ID else field for field in changes
        ]
        return {"key": key, "value": struct_schema(pa.schema([*changes, *batch.shown_schema]), name=f"{name}.Value")}
    image = struct_schema(batch.shown_schema, name=f"{name}.Value", optional=True)
    fields: list[ConnectSchema] = [
        {**image, "field": "before"},
        {**image, "field": "after"},
        {**struct_schema(SOURCE, name="io.debezium.connector.icefloe.Source"), "field": "source"},
        {"type": "string", "optional": False, "field": "op"},
        *(ConnectSchema(type="int64", optional=True, field=time) for time in ("ts_ms", "ts_us", "ts_ns")),
        {**_TRANSACTION, "field": "transaction"},
    ]
    envelope: ConnectSchema = {
        "type": "struct",
        "fields": fields,
        "optional": False,
        "name": f"{name}.Envelope",
        "version": 2,
    }
    return {"key": key, "value": envelope}


_TRANSACTION: Final[ConnectSchema] = {
    "type": "struct",
    "fields": [
        {"type": "string", "optional": False, "field": "id"},
        {"type": "int64", "optional": False, "field": "total_order"},
        {"type": "int64", "optional": False, "field": "data_collection_order"},
    ],
    "optional": True,
    "name": "event.block",
    "version": 1,
}


def struct_schema(schema: pa.Schema, *, name: str, optional: bool = False) -> ConnectSchema:
    """The schema of a struct of these columns.

    >>> struct_schema(pa.schema([pa.field("on", pa.date32(), nullable=False)]), name="t.Key")["fields"]
    [{'type': 'int32', 'name': 'io.debezium.time.Date', 'version': 1, 'optional': False, 'field': 'on'}]
    """
    fields: list[ConnectSchema] = [
        {**_schema(field, name=f"{name}.{field.name}"), "field": field.name} for field in schema
    ]
    return {"type": "struct", "fields": fields, "optional": optional, "name": name}


def _schema(field: pa.Field, *, name: str) -> ConnectSchema:
    return {**_type(field.type, name), "optional": field.nullable}


def _type(kind: pa.DataType, name: str) -> ConnectSchema:
    if isinstance(kind, pa.BaseExtensionType):
        return {"type": "string", "name": "io.debezium.data.Uuid", "version": 1}
    if str(kind) in _TIMES:
        logical = f"io.debezium.time.{_TIMES[str(kind)]}"
        return {"type": "int32" if pa.types.is_date(kind) else "int64", "name": logical, "version": 1}
    if pa.types.is_timestamp(kind):
        return {"type": "string", "name": "io.debezium.time.ZonedTimestamp", "version": 1}
    if pa.types.is_decimal(kind):
        parameters = {"scale": str(kind.scale), "connect.decimal.precision": str(kind.precision)}
        return {
            "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "version": 1, "parameters": parameters
        }  # fmt: skip
    if pa.types.is_struct(kind):
        return struct_schema(pa.schema(list(kind)), name=name)
    if pa.types.is_map(kind):
        keys, values = _schema(kind.key_field, name=f"{name}.key"), _schema(kind.item_field, name=f"{name}.value")
        return {"type": "map", "keys": keys, "values": values}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return {"type": "array", "items": _schema(kind.value_field, name=f"{name}.element")}
    return {"type": _plain(kind, name)}


def _plain(kind: pa.DataType, name: str) -> str:
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind):
        return f"int{kind.bit_width}"
    if pa.types.is_floating(kind):
        return "float" if kind.bit_width == 32 else "double"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return "bytes"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind):
        return "string"
    column = name.rpartition(".")[2]
    raise TerminalError(
        f"column {column} has type {kind}, which schemas of sink kafka cannot say: leave it out", column=column
    )


def avro_schema(connect: ConnectSchema) -> AvroSchema:
    """The Avro schema of a Connect schema; an optional one is a union with null.

    >>> avro_schema({"type": "int64", "optional": True})
    ['null', 'long']
    """
    return _Schemas().union(connect, connect.get("name", ""))


class _Schemas:
    """Avro names each record once; later mentions are the name alone."""

    def __init__(self) -> None:
        self._known: dict[str, object] = {}

    def union(self, connect: ConnectSchema, path: str) -> AvroSchema:
        own = self._type(connect, path)
        return ["null", own] if connect["optional"] else own

    def _type(self, connect: ConnectSchema, path: str) -> AvroSchema:
        match connect["type"]:
            case "struct":
                return self._record(connect)
            case "array":
                return {"type": "array", "items": self.union(connect["items"], f"{path}.element")}
            case "map" if connect["keys"]["type"] == "string":
                return {"type": "map", "values": self.union(connect["values"], f"{path}.value")}
            case "map":
                # Avro's maps have texts as keys.
                fields: list[ConnectSchema] = [
                    {**connect["keys"], "field": "key"},
                    {**connect["values"], "field": "value"},
                ]
                return {"type": "array", "items": self._record({"fields": fields, "name": f"{path}.Entry"})}
            case simple:
                return _logical(connect, _TYPES[simple])

    def _record(self, connect: ConnectSchema) -> AvroSchema:
        name = ".".join(avro_name(part) for part in connect["name"].split("."))
        if name in self._known:
            if self._known[name] != connect["fields"]:
                raise _ambiguous("two structs", name)
            return name
        self._known[name] = connect["fields"]
        fields: list[AvroSchema] = []
        taken: dict[str, str] = {}
        for field in connect["fields"]:
            other = taken.setdefault(avro_name(field["field"]), field["field"])
            if other != field["field"]:
                raise _ambiguous(f"columns {other} and {field['field']}", avro_name(other))
            own = {"name": avro_name(field["field"]), "type": self.union(field, f"{connect['name']}.{field['field']}")}
            fields.append({**own, "default": None} if field["optional"] else own)
        return {"type": "record", "name": name, "fields": fields}


def _ambiguous(columns: str, name: str) -> TerminalError:
    return TerminalError(
        f"{columns} are both {name} in Avro: rename one of them, leave one out of columns, or set sink.format to json",
    )


def _logical(connect: ConnectSchema, kind: str) -> AvroSchema:
    if connect.get("name") == _DECIMAL:
        parameters = connect["parameters"]
        sizes = {"scale": int(parameters["scale"]), "precision": int(parameters["connect.decimal.precision"])}
        return {"type": kind, "logicalType": "decimal", **sizes, "connect.name": _DECIMAL}
    return {"type": kind, "connect.name": connect["name"]} if "name" in connect else kind


def to_avro(value: Any, connect: ConnectSchema) -> Any:
    """The Avro value of a payload in Connect's JSON."""
    if value is None:
        return None
    match connect["type"]:
        case "struct":
            fields = connect["fields"]
            return {avro_name(field["field"]): to_avro(value[field["field"]], field) for field in fields}
        case "array":
            return [to_avro(each, connect["items"]) for each in value]
        case "map" if connect["keys"]["type"] == "string":
            return {key: to_avro(item, connect["values"]) for key, item in value.items()}
        case "map":
            return [
                {"key": to_avro(key, connect["keys"]), "value": to_avro(item, connect["values"])} for key, item in value
            ]
        case "bytes" if connect.get("name") == _DECIMAL:
            unscaled = int.from_bytes(b64decode(value), "big", signed=True)
            return Decimal(unscaled).scaleb(-int(connect["parameters"]["scale"]), EXACT)
        case "bytes":
            return b64decode(value)
        case "float" | "double":
            return float(value)
    return value


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

    def register(self, of: str, schema: AvroSchema) -> int:
        """The id of an Avro schema of ``key`` or ``value``."""
        text = Schema(json.dumps(schema), "AVRO")
        number = self._ask(lambda: self._client.register_schema(f"{self._topic}-{of}", text))
        if not isinstance(number, int):
            raise self._no_registry("it gives a schema no id")
        return number

    def read(self, message: bytes) -> Any:
        """The value of a message, as fastavro has it."""
        _, number = PREFIX.unpack_from(message)
        if number not in self._parsed:
            text = self._ask(lambda: self._client.get_schema(number)).schema_str
            if not text:
                raise self._no_registry(f"it has no text for schema {number}")
            self._parsed[number] = parse_schema(json.loads(text))
        return schemaless_reader(io.BytesIO(message[PREFIX.size :]), self._parsed[number], None)

    def _subjects(self) -> object:
        # Each make of registry has its own answer for a missing subject, so a list of all is asked for first. A gateway
        # may serve the subjects of the topic alone.
        for look in (self._client.get_subjects, partial(self._client.get_versions, f"{self._topic}-value")):
            try:
                return look()
            except SchemaRegistryError as answer:
                if answer.http_status_code == _NO_RIGHT:
                    return []
                if answer.http_status_code not in _ELSEWHERE:
                    raise
                if (answer.error_code or 0) >= _FIRST_OWN_CODE:
                    return []
                elsewhere = answer
        raise elsewhere

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
        if status in _BUSY or status >= _FIRST_SERVER_FAULT:
            return self._silent(cause)
        if status in _DENIED:
            return TerminalError(
                f"the schema registry refuses the user for the schemas of topic {self._topic} ({said}): correct "
                "schema.registry.basic.auth.user.info in the extra of the connection of sink.conn_id, or give the user "
                "the right to write these subjects"
            )
        if cause.error_code is None or (status in _ELSEWHERE and cause.error_code < _FIRST_OWN_CODE):
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
    if not is_address(str(configuration["url"]), *_SCHEMES, is_list=True):
        raise TerminalError(
            "sink.schema_registry.url is not the URL of a schema registry: write one such as "
            "https://registry.example:8081",
            key="sink.schema_registry.url",
        )
    place = "in the extra of the connection of sink.conn_id"
    proxy = configuration.get("proxy")
    if proxy is not None and not _is_proxy(proxy):
        raise TerminalError(f"{REGISTRY}proxy {place} is not the URL of a proxy: correct it", key="sink.conn_id")
    if not isinstance(configuration.get("timeout", 0), int | float):
        # The client takes it, and fails at each request.
        raise TerminalError(f"{REGISTRY}timeout {place} is not a number of seconds: correct it", key="sink.conn_id")
    try:
        return SchemaRegistryClient.new_client(dict(configuration))
    except Exception as cause:
        raise TerminalError(
            f"{REGISTRY}* {place} does not fit the registry's client, or a file that it names cannot be read "
            f"({one_line(cause)}): correct it",
            key="sink.conn_id",
        ) from cause


def _is_proxy(url: object) -> bool:
    try:
        parsed = urlsplit(str(url))
        return parsed.scheme in _PROXIES and bool(parsed.hostname) and (parsed.port or 1) > 0
    except ValueError:
        return False
