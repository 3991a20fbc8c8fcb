"""Avro's types as Arrow's: a reader of values for each type, and field ids in the metadata of the fields.

Sources: https://avro.apache.org/docs/1.12.0/specification/ and https://iceberg.apache.org/spec/#avro
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from operator import methodcaller
from typing import Final, NotRequired, Required, TypeAlias, TypedDict
from uuid import UUID

import pyarrow as pa

from icefloe.iceberg.files.avro_decoder import MAX_VALUES, AvroDecoder
from icefloe.iceberg.files.avro_values import LeafValues, ListValues, MapValues, OptionalValues, StructValues, Values

AvroSchema: TypeAlias = "str | list[AvroSchema] | AvroDefinition"
"""A type by its name, a union, or a type that is written out."""

_AvroField = TypedDict("_AvroField", {"name": str, "type": AvroSchema, "field-id": NotRequired[int]})

AvroDefinition = TypedDict(
    "AvroDefinition",
    {
        "type": Required[AvroSchema], "name": str, "namespace": str, "logicalType": str,
        "fields": list[_AvroField], "symbols": list[str], "size": int, "precision": int, "scale": int,
        "items": AvroSchema, "element-id": int, "values": AvroSchema, "key-id": int, "value-id": int,
    },
    total=False,
)  # fmt: skip
"""A type that is written out; which keys it has depends on ``type``."""


_FIELD_ID: Final = "iceberg.id"
_PRIMITIVES: Final[Mapping[str, tuple[pa.DataType, str]]] = {
    "boolean": (pa.bool_(), "read_boolean"),
    "int": (pa.int32(), "read_int"),
    "long": (pa.int64(), "read_int"),
    "float": (pa.float32(), "read_float"),
    "double": (pa.float64(), "read_double"),
    "bytes": (pa.large_binary(), "read_bytes"),
    "string": (pa.large_string(), "read_bytes"),
}
_STORED: Final = {"float": pa.binary(4), "double": pa.binary(8), "string": pa.large_binary()}
_TIMES: Final[Mapping[tuple[str, str], pa.DataType]] = {
    ("date", "int"): pa.date32(),
    ("time-millis", "int"): pa.time32("ms"),
    ("time-micros", "long"): pa.time64("us"),
    ("timestamp-millis", "long"): pa.timestamp("ms", "UTC"),
    ("timestamp-micros", "long"): pa.timestamp("us", "UTC"),
    ("timestamp-nanos", "long"): pa.timestamp("ns", "UTC"),
    ("local-timestamp-millis", "long"): pa.timestamp("ms"),
    ("local-timestamp-micros", "long"): pa.timestamp("us"),
    ("local-timestamp-nanos", "long"): pa.timestamp("ns"),
}
"""Zones are labels, and Iceberg's ``adjust-to-utc`` adds nothing to the type of the table."""

AvroField = tuple[pa.Field, Values]


def record_fields(schema: AvroSchema) -> list[AvroField]:
    """The fields of a file's schema, which is a record, each with its reader of values; nothing is read yet.

    Args:
        schema: Avro's, as JSON.

    Raises:
        ValueError: it is not a record, or a part of it is unknown to Avro and Iceberg.
        LookupError: something is missing from it.
    """
    if not isinstance(schema, Mapping) or schema.get("type") != "record":
        raise ValueError("its schema is no record")
    return _fields(schema, _Names({}, count()).inside(schema))


class _Names:
    """Named types from earlier in the schema: a type is written out only where it appears first."""

    def __init__(
        self, known: dict[str, tuple[AvroDefinition, "_Names"]], values: Iterator[int], namespace: str = ""
    ) -> None:
        self._known = known
        self._values = values
        self._namespace = namespace

    def count_value(self) -> None:
        """Raise ValueError if there are too many: types that name each other twice grow exponentially."""
        if next(self._values) >= MAX_VALUES:
            raise ValueError(f"its schema has more than {MAX_VALUES} fields and elements")

    def inside(self, schema: AvroDefinition) -> "_Names":
        """The names as they are used inside a named type, which is one of them from now on."""
        full = self._full(schema["name"], schema.get("namespace", self._namespace))
        inner = _Names(self._known, self._values, full.rpartition(".")[0])
        self._known[full] = schema, inner
        return inner

    def find(self, name: str) -> tuple[AvroDefinition, "_Names"]:
        """A named type, and the names as they are used inside it."""
        return self._known[self._full(name, self._namespace)]

    def _full(self, name: str, namespace: str) -> str:
        return name if "." in name or not namespace else f"{namespace}.{name}"


def _fields(record: AvroDefinition, names: _Names) -> list[AvroField]:
    return [_field(field["name"], field["type"], field.get("field-id"), names) for field in record["fields"]]


def _field(name: str, schema: AvroSchema, field_id: int | None, names: _Names) -> AvroField:
    values = _values(schema, names)
    is_nullable = isinstance(values, OptionalValues) or pa.types.is_null(values.type)
    metadata = None if field_id is None else {_FIELD_ID: str(field_id)}
    return pa.field(name, values.type, nullable=is_nullable, metadata=metadata), values


def _values(schema: AvroSchema, names: _Names) -> Values:
    names.count_value()
    if isinstance(schema, list):
        return _union(schema, names)
    if isinstance(schema, str):
        return _plain(schema) if schema in _PRIMITIVES or schema == "null" else _named(*names.find(schema))
    match schema["type"]:
        case "record" | "enum" | "fixed":
            return _named(schema, names.inside(schema))
        case "array" if schema.get("logicalType") == "map":
            pair = schema["items"]
            if not isinstance(pair, dict):
                raise ValueError("a map that is written as a list holds records")  # noqa: TRY004 - of a file, not a call
            (key_field, key), (value_field, value) = _fields(pair, names.inside(pair))
            return MapValues(key_field, key, value_field, value)
        case "array":
            return ListValues(*_field("element", schema["items"], schema.get("element-id"), names))
        case "map":
            key_field, key = _field("key", "string", schema.get("key-id"), names)
            return MapValues(key_field, key, *_field("value", schema["values"], schema.get("value-id"), names))
        case str(plain) if plain in _PRIMITIVES:
            return _logical(schema, plain)
        case inner:
            return _values(inner, names)


def _union(branches: Sequence[AvroSchema], names: _Names) -> Values:
    if len(branches) != 2 or "null" not in branches:
        raise ValueError(f"a union of null and one type was expected, found one of {len(branches)}")
    null_index = branches.index("null")
    return OptionalValues(_values(branches[1 - null_index], names), null_index=null_index)


def _named(schema: AvroDefinition, names: _Names) -> Values:
    if schema["type"] == "record":
        fields = _fields(schema, names)
        return StructValues([field for field, _ in fields], [values for _, values in fields])
    if schema["type"] == "enum":
        symbols = dict(enumerate(schema["symbols"]))
        return LeafValues(pa.large_string(), lambda decoder: symbols[decoder.read_int()])
    size_bytes = schema["size"]
    return _bytes(schema, pa.binary(size_bytes), methodcaller("read_fixed", size_bytes))


def _plain(name: str) -> Values:
    if name == "null":
        return LeafValues(pa.null(), lambda _: None)
    kind, method = _PRIMITIVES[name]
    return LeafValues(kind, methodcaller(method), _STORED.get(name))


def _logical(schema: AvroDefinition, plain: str) -> Values:
    logical = str(schema.get("logicalType"))
    if (logical, plain) in _TIMES:
        return LeafValues(_TIMES[logical, plain], methodcaller("read_int"), _PRIMITIVES[plain][0])
    if (logical, plain) == ("uuid", "string"):
        return LeafValues(pa.uuid(), lambda decoder: UUID(decoder.read_bytes().decode()).bytes, pa.binary(16))
    if plain == "bytes":
        return _bytes(schema, pa.large_binary(), methodcaller("read_bytes"))
    return _plain(plain)


def _bytes(schema: AvroDefinition, kind: pa.DataType, read: Callable[[AvroDecoder], bytes]) -> Values:
    """Values of bytes, of a uuid in bytes, or of a decimal in bytes."""
    if schema.get("logicalType") == "uuid":
        return LeafValues(pa.uuid(), read, kind)
    if schema.get("logicalType") == "decimal":
        decimal = pa.decimal128(schema["precision"], schema.get("scale", 0))
        return LeafValues(decimal, lambda decoder: _little_endian(read(decoder)), pa.binary(16))
    return LeafValues(kind, read)


def _little_endian(unscaled: bytes) -> bytes:
    """Arrow's 128 bits of a number that is in two's complement, the highest byte first."""
    return int.from_bytes(unscaled, "big", signed=True).to_bytes(16, "little", signed=True)
