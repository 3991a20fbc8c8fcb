"""Avro schemas for Connect's, as the converter of Confluent's registry maps them, and values that fit them."""

import re
from base64 import b64decode
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, TypeAlias

from icefloe.errors import TerminalError
from icefloe.sinks.kafka.connect_schemas import ConnectSchema
from icefloe.sinks.kafka.json_texts import EXACT

_TYPES: Final[Mapping[str, str]] = {
    "int8": "int", "int16": "int", "int32": "int", "int64": "long", "float": "float", "double": "double",
    "boolean": "boolean", "string": "string", "bytes": "bytes",
}  # fmt: skip
AvroSchema: TypeAlias = str | list[Any] | dict[str, Any]
"""A type by its name, a union, or a type with its keys, as JSON."""
_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"


def avro_name(name: str) -> str:
    """A name that Avro allows: every other character is an underscore, as Debezium's adjustment ``avro`` has it.

    >>> avro_name("2nd flight"), avro_name("carrier")
    ('_2nd_flight', 'carrier')
    """
    found = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return found if re.match(r"[A-Za-z_]", found) else f"_{found}"


def avro_schema(connect: ConnectSchema) -> AvroSchema:
    """The Avro schema of a Connect schema; an optional one is a union with null.

    Raises:
        TerminalError: two columns get one name.

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
        name=name,
    )


def _logical(connect: ConnectSchema, kind: str) -> AvroSchema:
    if connect.get("name") == _DECIMAL:
        parameters = connect["parameters"]
        sizes = {"scale": int(parameters["scale"]), "precision": int(parameters["connect.decimal.precision"])}
        return {"type": kind, "logicalType": "decimal", **sizes, "connect.name": _DECIMAL}
    return {"type": kind, "connect.name": connect["name"]} if "name" in connect else kind


def to_avro(value: Any, connect: ConnectSchema) -> Any:
    """The value for Avro of a payload in Connect's JSON."""
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
