"""Arrow columns as JSON texts, and back."""

import json
import re
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from enum import Enum
from typing import Any, Final
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.errors import TerminalError, one_line

TEXT: Final = pa.large_string()
_NULL: Final = pa.scalar("null", TEXT)
_ESCAPED: Final = r'["\\\x00-\x1f]'
_CONTROL: Final = r"[\x00-\x1f]"
UNREADABLE: Final = (
    ArithmeticError, AttributeError, EOFError, LookupError, RecursionError, struct.error, TypeError, ValueError,
)  # fmt: skip
"""What JSON, Avro, parsers and Arrow raise at content that somebody else has edited."""


class JsonForm(Enum):
    """The texts for types that JSON does not have."""

    READABLE = "readable"  # texts as in ISO 8601; a decimal as its digits
    # As READABLE, but a map is a list of objects with ``key`` and ``value``, and a float is a double.
    # Columns without values of any type are left out.
    DOCUMENT = "document"
    # As Debezium's JSON without schemas: numbers of days, microseconds or nanoseconds; a time with a zone as text;
    # a decimal as its digits (``decimal.handling.mode=string``).
    DEBEZIUM = "debezium"
    # No JSON: values of Avro as fastavro has them, only parsed. Names are Avro's, decimals and bytes are as they are.
    FROM_AVRO = "from avro"
    TO_AVRO = "to avro"  # DEBEZIUM is parsed to such values


def row_texts(rows: pa.RecordBatch, form: JsonForm) -> pa.Array:
    r"""One JSON object a row.

    >>> row_texts(pa.RecordBatch.from_pydict({"id": [1, None], "name": ["a", 'b"']}), JsonForm.READABLE).to_pylist()
    ['{"id":1,"name":"a"}', '{"id":null,"name":"b\\""}']
    """
    members = [
        (field.name, json_texts(column, form, name=field.name))
        for field, column in zip(rows.schema, rows.columns, strict=True)
        if form is not JsonForm.DOCUMENT or not pa.types.is_null(field.type)
    ]
    return object_texts(members, len(rows))


def object_texts(members: Sequence[tuple[str, pa.Array | str]], rows: int) -> pa.Array:
    """JSON objects of named JSON texts."""
    pieces: list[pa.Array | str] = []
    for place, (name, texts) in enumerate(members):
        pieces += [f"{',' if place else '{'}{json.dumps(name, ensure_ascii=False)}:", texts]
    return joined(*pieces, "}") if pieces else pa.repeat(_text("{}"), rows)


def json_texts(column: pa.Array, form: JsonForm, *, name: str) -> pa.Array:
    """The JSON text of each value; ``null`` if it is missing. ``name`` is for the error."""
    return pc.fill_null(_texts(column, form, name), _NULL)


def value_texts(values: pa.Array) -> pa.Array:
    """The text of each primitive value as large_string; null for null.

    As in JSON, with ``NaN``, ``Infinity`` and ``-Infinity``. Times are ISO 8601 with all digits of their unit, and
    ``Z`` if the type has a zone. Bytes are base64, a UUID has its usual form. 0.0 and -0.0 are one text, and so are a
    float and the double that it becomes.

    >>> value_texts(pa.array([1.5, float("nan"), None])).to_pylist()
    ['1.5', 'NaN', None]
    >>> value_texts(pa.array([1_700_000_000_000_001], pa.timestamp("us", "UTC"))).to_pylist()
    ['2023-11-14T22:13:20.000001Z']
    """
    kind = values.type
    if isinstance(values, pa.ExtensionArray):
        return _each(values.storage, lambda value: str(UUID(bytes=value)))
    if pa.types.is_floating(kind):
        return _float_texts(pc.add(values.cast(pa.float64()), 0.0))
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return moment_texts(values)
    if is_binary_type(kind):
        return _each(values, lambda value: b64encode(value).decode())
    return values.cast(TEXT)


def joined(*pieces: pa.Array | str) -> pa.Array:
    """Concatenated texts; null if one of them is."""
    return pc.binary_join_element_wise(*(_text(each) if isinstance(each, str) else each for each in (*pieces, "")))


def escaped_texts(texts: pa.Array) -> pa.Array:
    """Texts (large_string) as JSON has them between quotation marks."""
    is_escaped = pc.fill_null(pc.match_substring_regex(texts, _ESCAPED), False)
    if not pc.any(is_escaped).as_py():
        return texts
    # A filter and what puts its rows back take as long as the replacements, so few rows are worth them.
    is_rare = 2 * is_escaped.true_count < len(texts)
    found = texts.filter(is_escaped) if is_rare else texts
    found = pc.replace_substring(pc.replace_substring(found, "\\", "\\\\"), '"', '\\"')
    if pc.any(pc.match_substring_regex(found, _CONTROL)).as_py():
        for code in range(0x20):
            found = pc.replace_substring(found, chr(code), json.dumps(chr(code))[1:-1])
    return pc.replace_with_mask(texts, is_escaped, found) if is_rare else found


def avro_name(name: str) -> str:
    """A name that Avro allows, with underscores as of Debezium's adjustment ``avro``.

    >>> avro_name("2nd flight"), avro_name("carrier")
    ('_2nd_flight', 'carrier')
    """
    found = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return found if re.match(r"[A-Za-z_]", found) else f"_{found}"


def parser(kind: pa.DataType, form: JsonForm) -> Callable[[Any], Any]:
    """From the JSON of a value to what ``pa.array(..., kind)`` takes. A field missing in a struct is null.

    >>> parser(pa.date32(), JsonForm.DEBEZIUM)(18263), parser(pa.date32(), JsonForm.READABLE)("1970-01-02")
    (18263, 1)
    >>> parser(pa.struct({"a b": pa.decimal128(9, 2)}), JsonForm.TO_AVRO)({"a b": "1.50"})
    {'a_b': Decimal('1.50')}
    """
    parse = _parser(kind, form)
    return lambda value: None if value is None else parse(value)


def parsed_rows(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows of values that a `parser` gives; a missing one is null."""
    # Arrow makes extension types inside of others from their storage alone.
    columns = [
        pa.array([row.get(each.name) for row in rows], storage_type(each.type)).cast(each.type) for each in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@contextmanager
def reading(column: str) -> Iterator[None]:
    """Names the column of a value that its type does not have, which somebody else wrote."""
    try:
        yield
    except UNREADABLE as cause:
        raise TerminalError(
            f"{column} has a value that its type does not have ({one_line(cause)}): correct it, or load the table "
            "again with icefloe reset"
        ) from cause


def map_entries(maps: pa.MapArray) -> tuple[pa.Array, pa.Array, NDArray[np.int64]]:
    """Keys and values of all maps that are not null, concatenated, and the number of entries of each map.

    >>> maps = pa.array([{"a": 1}, None, {"b": 2, "c": 3}], pa.map_(pa.string(), pa.int8()))
    >>> keys, values, lengths = map_entries(maps.slice(1))
    >>> keys.to_pylist(), values.to_pylist(), lengths.tolist()
    (['b', 'c'], [2, 3], [0, 2])
    """
    # Not by a cast to a list of structs: Arrow ends the process at some slices whose values have the type null inside.
    offsets = maps.offsets.to_numpy().astype(np.int64)
    start, entries = int(offsets[0]), int(offsets[-1] - offsets[0])
    keys, values, lengths = maps.keys.slice(start, entries), maps.items.slice(start, entries), np.diff(offsets)
    if not maps.null_count:
        return keys, values, lengths
    is_there = maps.is_valid().to_numpy(zero_copy_only=False)
    if lengths[~is_there].any():
        kept = pa.array(np.flatnonzero(np.repeat(is_there, lengths)))
        keys, values = keys.take(kept), values.take(kept)
    return keys, values, np.where(is_there, lengths, 0)


def moment_texts(moments: pa.Array) -> pa.Array:
    """ISO 8601 as large_string, with all digits of the unit, and ``Z`` if the type has a zone.

    >>> moment_texts(pa.array([0, 106751991], pa.date32())).to_pylist()
    ['1970-01-01', '294247-01-10']
    >>> moment_texts(pa.array([1_700_000_000_000_001], pa.timestamp("us", "UTC"))).to_pylist()
    ['2023-11-14T22:13:20.000001Z']
    """
    kind = moments.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        # The text of an instant must not depend on the zone that a column is shown in.
        texts = moment_texts(moments.view(pa.timestamp(kind.unit)))
        return joined(texts, "Z")
    texts = pc.replace_substring(moments.cast(TEXT), " ", "T")
    # Arrow has no text for years beyond 32767, which Spark writes: it gives "<value out of range: 106751991>".
    is_beyond = pc.fill_null(pc.starts_with(texts, "<"), False)
    if not pc.any(is_beyond).as_py():
        return texts
    beyond = np.datetime_as_string(moments.filter(is_beyond).to_numpy(zero_copy_only=False))
    return pc.replace_with_mask(texts, is_beyond, pa.array(beyond.tolist(), TEXT))


def _texts(column: pa.Array, form: JsonForm, name: str) -> pa.Array:
    kind = column.type
    if pa.types.is_null(kind):
        return pa.nulls(len(column), TEXT)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return column.cast(TEXT)
    if pa.types.is_floating(kind):
        texts = value_texts(column) if form is JsonForm.DOCUMENT else _float_texts(column)
        # JSON has no numbers that are none.
        return pc.if_else(pc.is_finite(column), texts, _quote(texts))
    if is_text_type(kind):
        return _quote(escaped_texts(column.cast(TEXT)))
    if _is_moment(kind) and form is JsonForm.DEBEZIUM and getattr(kind, "tz", None) is None:
        whole = pa.int32() if pa.types.is_date32(kind) or pa.types.is_time32(kind) else pa.int64()
        return column.cast(whole).cast(TEXT)
    if pa.types.is_struct(kind):
        rows = pa.RecordBatch.from_arrays(column.flatten(), schema=pa.schema(list(kind)))
        return pc.if_else(column.is_valid(), row_texts(rows, form), _NULL)
    if pa.types.is_map(kind):
        return _map_texts(column, form, name)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        return _list_texts(column, lengths, json_texts(column.flatten(), form, name=name), "[", "]")
    if isinstance(column, pa.ExtensionArray) or is_binary_type(kind) or pa.types.is_decimal(kind) or _is_moment(kind):
        return _quote(value_texts(column))
    raise TerminalError(
        f"column {name} has type {kind}, which JSON of sink kafka cannot say: leave it out", column=name
    )


def is_binary_type(kind: pa.DataType) -> bool:
    """True for bytes of any length."""
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)


def is_text_type(kind: pa.DataType) -> bool:
    """True for texts."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _is_moment(kind: pa.DataType) -> bool:
    return pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_timestamp(kind)


def _float_texts(floats: pa.Array) -> pa.Array:
    texts = floats.cast(TEXT)
    for special, named in ((float("inf"), "Infinity"), (float("-inf"), "-Infinity")):
        texts = pc.if_else(pc.equal(floats, special), _text(named), texts)
    return pc.if_else(pc.is_nan(floats), _text("NaN"), texts)


def _map_texts(column: pa.MapArray, form: JsonForm, name: str) -> pa.Array:
    keys, items, lengths = map_entries(column)
    values = json_texts(items, form, name=name)
    named = json_texts(keys, form, name=name)
    if form is JsonForm.DOCUMENT:
        return _list_texts(column, lengths, object_texts([("key", named), ("value", values)], len(keys)), "[", "]")
    if is_text_type(keys.type):
        return _list_texts(column, lengths, joined(named, ":", values), "{", "}")
    # As Kafka Connect's converter has keys that are no text.
    return _list_texts(column, lengths, joined("[", named, ",", values, "]"), "[", "]")


def _list_texts(column: pa.Array, lengths: NDArray[np.int64], values: pa.Array, opening: str, closing: str) -> pa.Array:
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int64())
    lists = pa.LargeListArray.from_arrays(offsets, values)
    texts = joined(opening, pc.binary_join(lists, _text(",")), closing)
    return pc.if_else(column.is_valid(), texts, pa.scalar(None, TEXT))


def _each(column: pa.Array, write: Callable[[Any], str]) -> pa.Array:
    """For types without an Arrow kernel: a loop over the values, 0.5 s a million."""
    values: Sequence[object] = column.to_pylist()
    return pa.array([None if value is None else write(value) for value in values], TEXT)


def _quote(texts: pa.Array) -> pa.Array:
    return joined('"', texts, '"')


def _text(text: str) -> pa.Scalar:
    return pa.scalar(text, TEXT)


def _parser(kind: pa.DataType, form: JsonForm) -> Callable[[Any], Any]:
    is_to_avro = form is JsonForm.TO_AVRO
    if is_to_avro and (isinstance(kind, pa.BaseExtensionType) or _is_moment(kind)):
        return lambda value: value
    if isinstance(kind, pa.BaseExtensionType):
        return lambda value: UUID(value).bytes
    if pa.types.is_floating(kind):
        return float
    if form is JsonForm.FROM_AVRO and (pa.types.is_decimal(kind) or is_binary_type(kind)):
        return lambda value: value
    if pa.types.is_decimal(kind):
        return Decimal
    if is_binary_type(kind):
        return b64decode
    if _is_moment(kind):
        return lambda value: value if isinstance(value, int) else _units(value, kind)
    if pa.types.is_struct(kind):
        parsers = [(field.name, parser(field.type, form)) for field in kind]
        members = [
            (avro_name(name) if is_to_avro else name, avro_name(name) if form is JsonForm.FROM_AVRO else name, parse)
            for name, parse in parsers
        ]
        return lambda value: {name: parse(value.get(written)) for name, written, parse in members}
    if pa.types.is_map(kind):
        key, item = parser(kind.key_type, form), parser(kind.item_type, form)
        if is_to_avro and is_text_type(kind.key_type):
            return lambda value: {name: item(each) for name, each in value.items()}
        if is_to_avro:
            return lambda value: [{"key": key(name), "value": item(each)} for name, each in value]
        return lambda value: [(key(name), item(each)) for name, each in _entries(value)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = parser(kind.value_type, form)
        return lambda value: [element(each) for each in value]
    return lambda value: value


def storage_type(kind: pa.DataType) -> pa.DataType:
    """The type with bytes in place of uuids, also nested ones."""
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(storage_type(each.type)) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(storage_type(kind.key_type), kind.item_field.with_type(storage_type(kind.item_type)))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        made = pa.list_ if pa.types.is_list(kind) else pa.large_list
        return made(kind.value_field.with_type(storage_type(kind.value_type)))
    return kind


def _entries(value: Any) -> Any:
    if isinstance(value, Mapping):
        return value.items()
    return [(each["key"], each.get("value")) if isinstance(each, Mapping) else each for each in value]


def _units(text: str, kind: pa.DataType) -> int:
    """Days, or units of the type, since 1970 or midnight. NumPy reads years beyond 9999."""
    if pa.types.is_date(kind):
        return int(np.datetime64(text, "D").astype(np.int64))
    whole = text.removesuffix("Z") if pa.types.is_timestamp(kind) else f"1970-01-01T{text}"
    return int(np.datetime64(whole, kind.unit).astype(np.int64))
