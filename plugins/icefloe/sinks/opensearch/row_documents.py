"""JSON documents of rows, made column by column, and their ids."""

import base64
import hashlib
import json
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.errors import TerminalError
from icefloe.sinks.dotted_names import column_path, column_type, map_entries, moment_texts
from icefloe.sinks.key_changes import key_columns

_TEXT: Final = pa.large_string()
_LONGEST_BYTES: Final = 512
"""OpenSearch refuses the whole request for a longer id."""
DELETED: Final = "_deleted"
"""True in a document that only marks a deletion; other documents lack it."""
DELETED_AT: Final = "_deleted_at"
"""The time of the commit that deleted the row."""
_CONTROL: Final = r"[\x00-\x1f]"


def value_text(values: pa.Array) -> pa.Array:
    """The text of each value as large_string; null for null.

    Numbers and booleans are as in JSON, except that a float that is no number is ``NaN``, ``Infinity`` or
    ``-Infinity``. Times are ISO 8601 with all digits of their unit, and with ``Z`` if the type has a zone. Bytes are
    base64, a UUID has its usual form.

    >>> value_text(pa.array([1.5, float("nan"), None])).to_pylist()
    ['1.5', 'NaN', None]
    >>> value_text(pa.array([1_700_000_000_000_001], pa.timestamp("us", "UTC"))).to_pylist()
    ['2023-11-14T22:13:20.000001Z']
    """
    kind = values.type
    if isinstance(kind, pa.UuidType):
        return pa.array([None if value is None else str(value) for value in values.to_pylist()], _TEXT)
    if pa.types.is_floating(kind):
        return _float_text(values)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return moment_texts(values)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.array(
            [None if value is None else base64.b64encode(value).decode() for value in values.to_pylist()], _TEXT
        )
    if pa.types.is_boolean(kind):
        return pc.if_else(values, pa.scalar("true", _TEXT), pa.scalar("false", _TEXT))
    return values.cast(_TEXT)


def _float_text(values: pa.Array) -> pa.Array:
    # 0.0 and -0.0 are one value, and so one text. A float becomes a double first: its text must outlive a promotion.
    doubles = pc.add(values.cast(pa.float64()), 0.0)
    text = doubles.cast(_TEXT)
    for special, name in ((float("inf"), "Infinity"), (float("-inf"), "-Infinity")):
        text = pc.if_else(pc.equal(doubles, special), pa.scalar(name, _TEXT), text)
    return pc.if_else(pc.is_nan(doubles), pa.scalar("NaN", _TEXT), text)


def document_ids(rows: pa.RecordBatch, identity: Sequence[str]) -> pa.Array:
    """An id for each row, as large_string.

    ``<bytes>:<text>`` for each identifier column, joined by commas; the number is that of the text's bytes in UTF-8.
    An id of more than 512 bytes is ``sha256:`` and the hexadecimal SHA-256 of what it would be.

    >>> document_ids(pa.record_batch({"id": [7, 81], "code": ["a", "é,"]}), ["id", "code"]).to_pylist()
    ['1:7,1:a', '2:81,3:é,']
    """
    pieces = []
    for column in key_columns(rows, identity):
        text = value_text(column)
        length = pc.binary_length(text.cast(pa.large_binary())).cast(pa.large_string())
        pieces.append(pc.binary_join_element_wise(length, text, pa.scalar(":", pa.large_string())))
    ids = pc.binary_join_element_wise(*pieces, pa.scalar(",", pa.large_string()))
    sizes = pc.binary_length(ids.cast(pa.large_binary()))
    is_long = pc.greater(sizes, _LONGEST_BYTES)
    if not pc.any(is_long).as_py():
        return ids
    # One by one: a key this long is rare, and there is no kernel for SHA-256.
    hashed = [_hashed(each) for each in ids.filter(is_long).to_pylist()]
    return pc.replace_with_mask(ids, is_long, pa.array(hashed, pa.large_string()))


def id_forms(schema: pa.Schema, identity: Sequence[str]) -> dict[str, str]:
    """The form of each identifier column's text in ids. A batch whose forms differ needs another index."""
    return {name: _form(name, column_type(schema, name)) for name in identity}


def _form(name: str, kind: pa.DataType) -> str:
    # Promotions that Iceberg allows and that leave the text as it is, such as int to long, leave the form as it is.
    forms = (
        (pa.types.is_integer, "integer"),
        (pa.types.is_floating, "double"),
        (pa.types.is_boolean, "boolean"),
        (pa.types.is_date, "date"),
        (pa.types.is_time, "time"),
        (lambda each: pa.types.is_string(each) or pa.types.is_large_string(each), "string"),
        (lambda each: isinstance(each, pa.UuidType), "uuid"),
        (lambda each: pa.types.is_binary(each) or pa.types.is_large_binary(each), "base64"),
        (pa.types.is_fixed_size_binary, "base64"),
    )
    for is_kind, form in forms:
        if is_kind(kind):
            return form
    if pa.types.is_decimal(kind):
        return f"decimal with {kind.scale} places"
    if pa.types.is_timestamp(kind):
        return f"timestamp[{kind.unit}]" + (" with zone" if kind.tz else "")
    raise TerminalError(
        f"identifier column {name} is of type {kind}, which cannot be in the id of a document; choose columns of "
        "primitive types as identifier_columns",
        column=name,
    )


def _hashed(document_id: str) -> str:
    return f"sha256:{hashlib.sha256(document_id.encode()).hexdigest()}"


def documents(rows: pa.RecordBatch) -> pa.Array:
    r"""A JSON object for each row, as large_string, with all columns in their order.

    Nulls are there as null, except those of a column whose type is not known yet, for which there is no field.
    Integers, finite floats and booleans are JSON's own. What JSON has no exact form for is text: decimals, times,
    UUIDs, bytes (base64), and floats that are no numbers. A map is a list of objects with ``key`` and ``value``.

    >>> documents(pa.record_batch({"id": [7], "name": ['a "b"\n']})).to_pylist()
    ['{"id":7,"name":"a \\"b\\"\\u000a"}']
    """
    members = zip(rows.schema.names, rows.columns, strict=True)
    known = [(name, _json(values)) for name, values in members if not pa.types.is_null(values.type)]
    return _objects(known, rows.num_rows)


def deletion_markers(rows: pa.RecordBatch, deleted_at: pa.Array, identity: Sequence[str]) -> pa.Array:
    """A document for each deleted row: its identifier columns, the mark and the time."""
    keys = _nested([list(column_path(rows.schema, name)) for name in identity],
                   [_json(column) for column in key_columns(rows, identity)], rows.num_rows)  # fmt: skip
    marks = [(DELETED, _repeated("true", rows.num_rows)), (DELETED_AT, _json(deleted_at))]
    return _objects([*keys, *marks], rows.num_rows)


def _nested(paths: list[list[str]], texts: list[pa.Array], rows: int) -> list[tuple[str, pa.Array]]:
    """Members of an object; columns of one struct make one member."""
    members: list[tuple[str, pa.Array]] = []
    for top in dict.fromkeys(path[0] for path in paths):
        inside = [(path[1:], text) for path, text in zip(paths, texts, strict=True) if path[0] == top]
        if inside[0][0]:
            inner = _nested([path for path, _ in inside], [text for _, text in inside], rows)
            members.append((top, _objects(inner, rows)))
        else:
            members.append((top, inside[0][1]))
    return members


def _objects(members: Sequence[tuple[str, pa.Array]], rows: int) -> pa.Array:
    if not members:
        return _repeated("{}", rows)
    pieces: list[object] = []
    for number, (name, text) in enumerate(members):
        pieces += [pa.scalar(("," if number else "{") + json.dumps(name, ensure_ascii=False) + ":", _TEXT), text]
    return pc.binary_join_element_wise(*pieces, pa.scalar("}", _TEXT), pa.scalar("", _TEXT))


def _json(values: pa.Array) -> pa.Array:
    """The JSON of each value; the text ``null`` for null."""
    kind = values.type
    if pa.types.is_struct(kind):
        members = [(field.name, column) for field, column in zip(kind, values.flatten(), strict=True)
                   if not pa.types.is_null(field.type)]  # fmt: skip
        found = _objects([(name, _json(column)) for name, column in members], len(values))
        found = pc.if_else(values.is_valid(), found, pa.scalar(None, _TEXT))
    elif pa.types.is_map(kind):
        keys, items, lengths = map_entries(values)
        found = _lists(values, lengths, _objects([("key", _json(keys)), ("value", _json(items))], len(keys)))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
        found = _lists(values, lengths, _json(values.flatten()))
    elif pa.types.is_null(kind):
        found = pa.nulls(len(values), _TEXT)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        found = _quoted(json_escaped(values.cast(_TEXT)))
    elif pa.types.is_floating(kind):
        text = value_text(values)
        found = pc.if_else(pc.is_finite(values), text, _quoted(text))
    elif pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        found = value_text(values)
    else:
        found = _quoted(value_text(values))
    return pc.fill_null(found, "null")


def _lists(values: pa.Array, lengths: NDArray[np.int64], elements: pa.Array) -> pa.Array:
    """The elements' texts, joined for each list."""
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int64())
    joined = pc.binary_join(pa.LargeListArray.from_arrays(offsets, elements), pa.scalar(",", _TEXT))
    found = pc.binary_join_element_wise(pa.scalar("[", _TEXT), joined.cast(_TEXT), pa.scalar("]", _TEXT),
                                        pa.scalar("", _TEXT))  # fmt: skip
    return pc.if_else(values.is_valid(), found, pa.scalar(None, _TEXT))


def json_escaped(text: pa.Array) -> pa.Array:
    """Texts (large_string) as they stand between the quotes of a JSON string."""
    text = pc.replace_substring(pc.replace_substring(text, "\\", "\\\\"), '"', '\\"')
    if not pc.any(pc.match_substring_regex(text, _CONTROL)).as_py():
        return text
    for code in range(0x20):
        text = pc.replace_substring(text, chr(code), f"\\u{code:04x}")
    return text


def _quoted(text: pa.Array) -> pa.Array:
    quote = pa.scalar('"', _TEXT)
    return pc.binary_join_element_wise(quote, text, quote, pa.scalar("", _TEXT))


def _repeated(text: str, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, _TEXT), rows)
