"""Arrow columns as JSON texts, column by column: a row's text is then only joined."""

import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from decimal import Context
from enum import Enum
from typing import Any, Final
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.errors import TerminalError
from icefloe.sinks.dotted_names import map_entries, moment_texts

TEXT: Final = pa.large_string()
_NULL: Final = pa.scalar("null", TEXT)
EXACT: Final = Context(prec=76)
_ESCAPED: Final = r'["\\\x00-\x1f]'


class JsonForm(Enum):
    """The texts for types that JSON does not have.

    Attributes:
        READABLE: texts as ISO 8601 has them; a decimal as its digits.
        DEBEZIUM: as Debezium's JSON without schemas: numbers of days, microseconds or nanoseconds, a time with a zone
            as text; a decimal as its digits (``decimal.handling.mode=string``).
        CONNECT: as Kafka Connect's JSON with schemas: the same, but a decimal as the base64 of its bytes.
        AVRO: no JSON, only read: the same numbers and texts, but decimals and bytes as they are.
    """

    READABLE = "readable"
    DEBEZIUM = "debezium"
    CONNECT = "connect"
    AVRO = "avro"


def row_texts(rows: pa.RecordBatch | pa.StructArray, form: JsonForm) -> pa.Array:
    r"""One JSON object a row.

    Args:
        rows: any columns; a struct that is null gives ``null``.
        form: how dates and the like are written.

    >>> row_texts(pa.RecordBatch.from_pydict({"id": [1, None], "name": ["a", 'b"']}), JsonForm.READABLE).to_pylist()
    ['{"id":1,"name":"a"}', '{"id":null,"name":"b\\""}']
    """
    fields = rows.schema if isinstance(rows, pa.RecordBatch) else rows.type
    columns = rows.columns if isinstance(rows, pa.RecordBatch) else rows.flatten()
    pieces: list[pa.Array | pa.Scalar] = []
    for place, (field, column) in enumerate(zip(fields, columns, strict=True)):
        pieces += [_text(f"{',' if place else '{'}{_quoted(field.name)}:"), json_texts(column, form, name=field.name)]
    if not pieces:
        return pa.repeat(_text("{}"), len(rows))
    objects = joined(*pieces, _text("}"))
    return objects if isinstance(rows, pa.RecordBatch) else pc.if_else(rows.is_valid(), objects, _NULL)


def json_texts(column: pa.Array, form: JsonForm, *, name: str) -> pa.Array:
    """The JSON text of each value; ``null`` if it is missing."""
    if isinstance(column, pa.ExtensionArray):
        texts = _each(column.storage, lambda value: f'"{UUID(bytes=value)}"')
    else:
        texts = _texts(column, form, name)
    return pc.fill_null(texts, _NULL)


def joined(*pieces: pa.Array | pa.Scalar) -> pa.Array:
    """Texts side by side, row by row; null if one of them is."""
    return pc.binary_join_element_wise(*pieces, _text(""))


def _texts(column: pa.Array, form: JsonForm, name: str) -> pa.Array:
    kind = column.type
    if pa.types.is_null(kind):
        return pa.nulls(len(column), TEXT)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return column.cast(TEXT)
    if pa.types.is_floating(kind):
        return _float_texts(column)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return quoted_texts(column.cast(TEXT))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _each(column, lambda value: f'"{b64encode(value).decode()}"')
    if pa.types.is_decimal(kind):
        return _connect_decimals(column) if form is JsonForm.CONNECT else _quote(column.cast(TEXT))
    if pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_timestamp(kind):
        return _time_texts(column, form)
    if pa.types.is_struct(kind):
        return row_texts(column, form)
    if pa.types.is_map(kind):
        return _map_texts(column, form, name)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        return _list_texts(column, lengths, json_texts(column.flatten(), form, name=name), "[", "]")
    raise TerminalError(
        f"column {name} has type {kind}, which JSON of sink kafka cannot say: leave it out", column=name
    )


def quoted_texts(texts: pa.Array) -> pa.Array:
    """Texts in quotation marks, with the characters escaped that JSON asks for."""
    quoted = _quote(texts)
    escaped = pc.fill_null(pc.match_substring_regex(texts, _ESCAPED), False)
    if not pc.any(escaped).as_py():
        return quoted
    return pc.replace_with_mask(quoted, escaped, _each(texts.filter(escaped), _quoted))


def _float_texts(column: pa.Array) -> pa.Array:
    texts = column.cast(TEXT)
    # JSON has no such numbers; Connect writes these texts.
    for found, written in (("nan", '"NaN"'), ("-nan", '"NaN"'), ("inf", '"Infinity"'), ("-inf", '"-Infinity"')):
        texts = pc.if_else(pc.equal(texts, _text(found)), _text(written), texts)
    return texts


def _time_texts(column: pa.Array, form: JsonForm) -> pa.Array:
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return _quote(moment_texts(column))
    if form is not JsonForm.READABLE:
        whole = pa.int32() if pa.types.is_date32(kind) or pa.types.is_time32(kind) else pa.int64()
        return column.cast(whole).cast(TEXT)
    return _quote(column.cast(TEXT) if pa.types.is_time(kind) else moment_texts(column))


def _map_texts(column: pa.MapArray, form: JsonForm, name: str) -> pa.Array:
    keys, items, lengths = map_entries(column)
    values = json_texts(items, form, name=name)
    named = json_texts(keys, form, name=name)
    if pa.types.is_string(keys.type) or pa.types.is_large_string(keys.type):
        return _list_texts(column, lengths, joined(named, _text(":"), values), "{", "}")
    # Connect has no other way for keys that are no text.
    return _list_texts(column, lengths, joined(_text("["), named, _text(","), values, _text("]")), "[", "]")


def _list_texts(column: pa.Array, lengths: NDArray[np.int64], values: pa.Array, opening: str, closing: str) -> pa.Array:
    """Texts of the elements of all lists, joined by list."""
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int64())
    lists = pa.LargeListArray.from_arrays(offsets, values)
    texts = joined(_text(opening), pc.binary_join(lists, _text(",")), _text(closing))
    return pc.if_else(column.is_valid(), texts, pa.scalar(None, TEXT))


def _connect_decimals(column: pa.Array) -> pa.Array:
    """Base64 of the unscaled value: big-endian two's complement, as few bytes as hold it."""
    scale = column.type.scale
    return _each(column, lambda value: f'"{b64encode(decimal_bytes(int(value.scaleb(scale, EXACT)))).decode()}"')


def decimal_bytes(unscaled: int) -> bytes:
    r"""The bytes of Java's ``BigInteger.toByteArray``.

    >>> decimal_bytes(127), decimal_bytes(128), decimal_bytes(-1)
    (b'\x7f', b'\x00\x80', b'\xff')
    """
    bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length()
    return unscaled.to_bytes(bits // 8 + 1, "big", signed=True)


def _each(column: pa.Array, write: Callable[[Any], str]) -> pa.Array:
    """Texts of types that Arrow has no kernel for: a loop over the values, 0.5 s a million."""
    values: Sequence[object] = column.to_pylist()
    return pa.array([None if value is None else write(value) for value in values], TEXT)


def _quote(texts: pa.Array) -> pa.Array:
    return joined(_text('"'), texts, _text('"'))


def _quoted(text: object) -> str:
    return json.dumps(text, ensure_ascii=False)


def _text(text: str) -> pa.Scalar:
    return pa.scalar(text, TEXT)
