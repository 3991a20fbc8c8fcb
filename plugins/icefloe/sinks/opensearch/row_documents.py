"""JSON documents of rows, and their ids."""

import hashlib
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import TerminalError
from icefloe.sinks.dotted_names import column_path, column_type
from icefloe.sinks.json_texts import TEXT, JsonForm, json_texts, object_texts, row_texts, value_texts
from icefloe.sinks.key_changes import key_columns

_LONGEST_BYTES: Final = 512
"""OpenSearch refuses the whole request for a longer id."""
DELETED: Final = "_deleted"
"""True in a document that only marks a deletion; other documents lack it."""
DELETED_AT: Final = "_deleted_at"
"""The time of the commit that deleted the row."""


def document_ids(rows: pa.RecordBatch, identity: Sequence[str]) -> pa.Array:
    """An id for each row, as large_string.

    ``<bytes>:<text>`` for each identifier column, joined by commas; the number counts the text's bytes in UTF-8. An id
    of more than 512 bytes is ``sha256:`` and its hexadecimal SHA-256.

    >>> document_ids(pa.record_batch({"id": [7, 81], "code": ["a", "é,"]}), ["id", "code"]).to_pylist()
    ['1:7,1:a', '2:81,3:é,']
    """
    pieces = []
    for column in key_columns(rows, identity):
        text = value_texts(column)
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
    """The form of each identifier column's text; a batch with other forms needs another index."""
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
    r"""A JSON object for each row, as large_string, with all columns in order.

    Nulls are null, but columns of unknown type have no field. Integers, finite floats and booleans are JSON's own. The
    rest is text: decimals, times, UUIDs, bytes (base64), and floats that are no numbers. A map is a list of objects
    with ``key`` and ``value``.

    >>> documents(pa.record_batch({"id": [7], "name": ['a "b"\n']})).to_pylist()
    ['{"id":7,"name":"a \\"b\\"\\n"}']
    """
    return row_texts(rows, JsonForm.DOCUMENT)


def deletion_markers(rows: pa.RecordBatch, deleted_at: pa.Array, identity: Sequence[str]) -> pa.Array:
    """A document for each deleted row: identifier columns, mark and time."""
    paths = [list(column_path(rows.schema, name)) for name in identity]
    keys = _nested(paths, [_document(column) for column in key_columns(rows, identity)], rows.num_rows)
    marks = [(DELETED, pa.repeat(pa.scalar("true", TEXT), rows.num_rows)), (DELETED_AT, _document(deleted_at))]
    return object_texts([*keys, *marks], rows.num_rows)


def _document(column: pa.Array) -> pa.Array:
    return json_texts(column, JsonForm.DOCUMENT, name="")


def _nested(paths: list[list[str]], texts: list[pa.Array], rows: int) -> list[tuple[str, pa.Array]]:
    members: list[tuple[str, pa.Array]] = []
    for top in dict.fromkeys(path[0] for path in paths):
        inside = [(path[1:], text) for path, text in zip(paths, texts, strict=True) if path[0] == top]
        if inside[0][0]:
            inner = _nested([path for path, _ in inside], [text for _, text in inside], rows)
            members.append((top, object_texts(inner, rows)))
        else:
            members.append((top, inside[0][1]))
    return members
