"""Values of an Avro file, read into Arrow arrays by the file's own types.

Measured: 0.45 us per value, 8 s for a million rows of 19 columns. No installed library reads Avro into Arrow.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from operator import methodcaller
from typing import Final, Protocol
from uuid import UUID

import pyarrow as pa

from icefloe.iceberg.files.avro_container import MAX_VALUES, AvroDecoder, AvroSchema


class Values(Protocol):
    """Reads values of one type; knows nothing of names."""

    @property
    def type(self) -> pa.DataType:
        """Type of the arrays."""

    def append(self, decoder: AvroDecoder) -> None:
        """Reads the next value."""

    def append_null(self) -> None:
        """Adds a null without reading."""

    def skip(self, decoder: AvroDecoder) -> None:
        """Reads and drops the next value."""

    def finish(self) -> pa.Array:
        """The array of all values since the last call."""


class LeafValues:
    """Values without parts.

    Args:
        stored: type in which values are collected, with the buffers of ``kind``.
    """

    __slots__ = ("_push", "_read", "_stored", "_values", "type")

    def __init__(
        self, kind: pa.DataType, read: Callable[[AvroDecoder], object], stored: pa.DataType | None = None
    ) -> None:
        self.type = kind
        self._read = read
        self._stored = kind if stored is None else stored
        self._values: list[object] = []
        self._push = self._values.append

    def append(self, decoder: AvroDecoder) -> None:
        self._push(self._read(decoder))

    def append_null(self) -> None:
        self._push(None)

    def skip(self, decoder: AvroDecoder) -> None:
        self._read(decoder)

    def finish(self) -> pa.Array:
        array = pa.array(self._values, self._stored)
        self._values.clear()
        if self._stored == self.type:
            return array
        return array.cast(self.type) if pa.types.is_large_string(self.type) else array.view(self.type)


class OptionalValues:
    """A union of null and one type."""

    __slots__ = ("_append", "_null", "_skip", "append_null", "finish", "type")

    def __init__(self, values: Values, *, null_index: int) -> None:
        self.type = values.type
        self._append, self._skip = values.append, values.skip
        self.append_null, self.finish = values.append_null, values.finish
        self._null = null_index

    def append(self, decoder: AvroDecoder) -> None:
        branch = decoder.read_int()
        if branch == self._null:
            self.append_null()
        elif branch == 1 - self._null:
            self._append(decoder)
        else:
            raise IndexError(f"a union of two types has no branch {branch}")

    def skip(self, decoder: AvroDecoder) -> None:
        if decoder.read_int() != self._null:
            self._skip(decoder)


class StructValues:
    """Records."""

    __slots__ = ("_children", "_is_null", "type")

    def __init__(self, fields: Sequence[pa.Field], children: Sequence[Values]) -> None:
        self.type = pa.struct(fields)
        self._children = tuple(children)
        self._is_null: list[bool] = []

    def append(self, decoder: AvroDecoder) -> None:
        self._is_null.append(False)
        for child in self._children:
            child.append(decoder)

    def append_null(self) -> None:
        self._is_null.append(True)
        for child in self._children:
            child.append_null()

    def skip(self, decoder: AvroDecoder) -> None:
        for child in self._children:
            child.skip(decoder)

    def finish(self) -> pa.Array:
        mask = pa.array(self._is_null, pa.bool_())
        self._is_null.clear()
        children = [child.finish() for child in self._children]
        return pa.StructArray.from_arrays(children, fields=list(self.type), mask=mask)


class _Blocks:
    """Values in blocks of parts: the end of each value among all parts, and the nulls."""

    __slots__ = ("_ends", "_is_null")

    def __init__(self) -> None:
        self._ends: list[int] = [0]
        self._is_null: list[bool] = []

    def append_null(self) -> None:
        self._ends.append(self._ends[-1])
        self._is_null.append(True)

    def _end_at(self, count: int) -> None:
        self._ends.append(count)
        self._is_null.append(False)

    def _taken(self, kind: pa.DataType) -> tuple[pa.Array, pa.Array]:
        found = pa.array(self._ends, kind), pa.array(self._is_null, pa.bool_())
        self._ends, self._is_null = [0], []
        return found


class ListValues(_Blocks):
    """Arrays."""

    __slots__ = ("_element", "type")

    def __init__(self, field: pa.Field, element: Values) -> None:
        super().__init__()
        self.type = pa.large_list(field)
        self._element = element

    def append(self, decoder: AvroDecoder) -> None:
        count = self._ends[-1]
        for _ in decoder.sequence():
            self._element.append(decoder)
            count += 1
        self._end_at(count)

    def skip(self, decoder: AvroDecoder) -> None:
        for _ in decoder.sequence():
            self._element.skip(decoder)

    def finish(self) -> pa.Array:
        ends, is_null = self._taken(pa.int64())
        return pa.LargeListArray.from_arrays(ends, self._element.finish(), type=self.type, mask=is_null)


class MapValues(_Blocks):
    """Maps: Avro's own with text keys, or Iceberg's pairs; the encoding is the same."""

    __slots__ = ("_key", "_value", "type")

    def __init__(self, key_field: pa.Field, key: Values, value_field: pa.Field, value: Values) -> None:
        super().__init__()
        self.type = pa.map_(key_field, value_field)
        self._key, self._value = key, value

    def append(self, decoder: AvroDecoder) -> None:
        count = self._ends[-1]
        for _ in decoder.sequence():
            self._key.append(decoder)
            self._value.append(decoder)
            count += 1
        self._end_at(count)

    def skip(self, decoder: AvroDecoder) -> None:
        for _ in decoder.sequence():
            self._key.skip(decoder)
            self._value.skip(decoder)

    def finish(self) -> pa.Array:
        ends, is_null = self._taken(pa.int32())
        keys, values = self._key.finish(), self._value.finish()
        return pa.MapArray.from_arrays(ends, keys, values, type=self.type, mask=is_null)


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
    """The fields of a file's schema with their readers; nothing is read yet."""
    if not isinstance(schema, Mapping) or schema.get("type") != "record":
        raise ValueError("its schema is no record")
    return _fields(schema, _Names({}, count()).inside(schema))


class _Names:
    """Named types from earlier in the schema, where each first appears."""

    def __init__(
        self, known: dict[str, tuple[AvroSchema, "_Names"]], values: Iterator[int], namespace: str = ""
    ) -> None:
        self._known = known
        self._values = values
        self._namespace = namespace

    def count_value(self) -> None:
        """ValueError if there are too many: types that name each other twice grow exponentially."""
        if next(self._values) >= MAX_VALUES:
            raise ValueError(f"its schema has more than {MAX_VALUES} fields and elements")

    def inside(self, schema: AvroSchema) -> "_Names":
        """The names inside a named type, which is one of them from now on."""
        full = self._full(schema["name"], schema.get("namespace", self._namespace))
        inner = _Names(self._known, self._values, full.rpartition(".")[0])
        self._known[full] = schema, inner
        return inner

    def find(self, name: str) -> tuple[AvroSchema, "_Names"]:
        return self._known[self._full(name, self._namespace)]

    def _full(self, name: str, namespace: str) -> str:
        return name if "." in name or not namespace else f"{namespace}.{name}"


def _fields(record: AvroSchema, names: _Names) -> list[AvroField]:
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


def _named(schema: AvroSchema, names: _Names) -> Values:
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


def _logical(schema: AvroSchema, plain: str) -> Values:
    logical = str(schema.get("logicalType"))
    if (logical, plain) in _TIMES:
        return LeafValues(_TIMES[logical, plain], methodcaller("read_int"), _PRIMITIVES[plain][0])
    if (logical, plain) == ("uuid", "string"):
        return LeafValues(pa.uuid(), lambda decoder: UUID(decoder.read_bytes().decode()).bytes, pa.binary(16))
    if plain == "bytes":
        return _bytes(schema, pa.large_binary(), methodcaller("read_bytes"))
    return _plain(plain)


def _bytes(schema: AvroSchema, kind: pa.DataType, read: Callable[[AvroDecoder], bytes]) -> Values:
    if schema.get("logicalType") == "uuid":
        return LeafValues(pa.uuid(), read, kind)
    if schema.get("logicalType") == "decimal":
        decimal = pa.decimal128(schema["precision"], schema.get("scale", 0))
        return LeafValues(decimal, lambda decoder: _little_endian(read(decoder)), pa.binary(16))
    return LeafValues(kind, read)


def _little_endian(unscaled: bytes) -> bytes:
    """Arrow's 128 bits of a big-endian number in two's complement."""
    return int.from_bytes(unscaled, "big", signed=True).to_bytes(16, "little", signed=True)
