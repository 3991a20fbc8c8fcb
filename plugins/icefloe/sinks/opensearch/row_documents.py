"""JSON documents of rows, made column by column."""

import json
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.sinks.dotted_names import column_path
from icefloe.sinks.key_changes import key_columns
from icefloe.sinks.map_entries import map_entries
from icefloe.sinks.opensearch.value_text import value_text

DELETED: Final = "_deleted"
"""True in a document that only marks a deletion; other documents lack it."""
DELETED_AT: Final = "_deleted_at"
"""The time of the commit that deleted the row."""

_TEXT: Final = pa.large_string()
_CONTROL: Final = r"[\x00-\x1f]"


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
    """A document for each deleted row: its identifier columns, the mark and the time.

    Args:
        rows: the rows that were deleted.
        deleted_at: for each row the time of the commit.
        identity: dotted names of the identifier columns that the index shows.
    """
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
