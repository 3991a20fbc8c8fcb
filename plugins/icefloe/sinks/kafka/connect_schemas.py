"""Schemas as Kafka Connect writes them into JSON messages, with Debezium's names of logical types."""

from collections.abc import Mapping, Sequence
from typing import Final, TypedDict

import pyarrow as pa

from icefloe.changes.columns import CHANGE_COLUMNS, COMMIT_SNAPSHOT_ID
from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import ProvenBatch
from icefloe.sinks.kafka.event_source import SOURCE
from icefloe.sinks.kafka.row_keys import key_schema

_TIMES: Final[Mapping[str, str]] = {
    "date32[day]": "Date",
    "time64[us]": "MicroTime",
    "time64[ns]": "NanoTime",
    "timestamp[us]": "MicroTimestamp",
    "timestamp[ns]": "NanoTimestamp",
}


class ConnectSchema(TypedDict, total=False):
    """A schema of Kafka Connect as JSON; each type has the keys that it needs.

    Attributes:
        type: such as ``int64``, ``struct``, ``array``, ``map``.
        optional: True if null is a value.
        name: of a struct, or of a logical type.
        version: of a logical type.
        parameters: of a logical type.
        field: name of the field of a struct whose schema this is.
        fields: of a struct.
        items: elements of an array.
        keys: keys of a map.
        values: values of a map.
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
    """Schemas of ``key`` and ``value`` of a batch's messages.

    Args:
        batch: the batch.
        is_debezium: True for Debezium's envelope, False for plain rows.

    Raises:
        TerminalError: a column has a type that no Iceberg column has.
    """
    name = f"{batch.origin.pipeline}.{batch.origin.table}"
    key = struct_schema(key_schema(batch), name=f"{name}.Key")
    if not is_debezium:
        changes = [batch.schema.field(column) for column in CHANGE_COLUMNS]
        changes = [field.with_type(pa.string()) if field.name == COMMIT_SNAPSHOT_ID else field for field in changes]
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
