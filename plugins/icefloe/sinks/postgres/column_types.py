"""Arrow's types in PostgreSQL: their names, the text of values for COPY, and values read back."""

import io
import json
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.csv import WriteOptions, write_csv

from icefloe.errors import TerminalError
from icefloe.sinks.json_texts import (
    TEXT,
    JsonForm,
    is_binary_type,
    is_text_type,
    json_texts,
    parsed_rows,
    parser,
    reading,
    value_texts,
)

_NUL: Final = "\0"
_JSON_NUL: Final = r"(^|[^\\])(\\\\)*\\u0000"
"""An escaped NUL in JSON, but not an escaped backslash before ``u0000``."""
_NAMES: Final = {
    pa.bool_(): "boolean", pa.int32(): "integer", pa.int64(): "bigint", pa.float32(): "real",
    pa.float64(): "double precision", pa.date32(): "date", pa.time64("us"): "time without time zone",
    pa.string(): "text", pa.large_string(): "text", pa.uuid(): "uuid",
}  # fmt: skip


def column_type_name(name: str, kind: pa.DataType) -> str:
    """The type of a column, as PostgreSQL itself writes it."""
    if kind in _NAMES:
        return _NAMES[kind]
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        # PostgreSQL has no nanoseconds.
        return f"timestamp {'without' if kind.tz is None else 'with'} time zone" if kind.unit == "us" else "text"
    if is_binary_type(kind):
        return "bytea"
    if pa.types.is_nested(kind):
        return "jsonb"
    raise TerminalError(f"column {name} has type {kind}, which PostgreSQL does not have: leave it out", column=name)


def copied_rows(rows: pa.RecordBatch) -> bytes:
    r"""Rows as COPY takes them with ``format csv``: a null has no quotation marks.

    >>> copied_rows(pa.record_batch({"id": [1, 2], "word": ["a", None], "data": [b"\x01", b""]}))
    b'"1","a","\\x01"\n"2",,"\\x"\n'
    """
    texts = [_texts(name, column) for name, column in zip(rows.schema.names, rows.columns, strict=True)]
    written = io.BytesIO()
    write_csv(pa.Table.from_arrays(texts, rows.schema.names), written, WriteOptions(include_header=False))
    return written.getvalue()


def row_with_nul(rows: pa.RecordBatch) -> tuple[str, int] | None:
    """The first column with a NUL in a text, which PostgreSQL does not store, and the place of the row."""
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if is_text_type(column.type):
            found = pc.match_substring(column, _NUL)
        elif pa.types.is_nested(column.type):
            found = pc.match_substring_regex(_texts(name, column), _JSON_NUL)
        else:
            continue
        if (place := pc.index(found, True).as_py()) >= 0:
            return name, place
    return None


def _texts(name: str, column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_nested(kind):
        return pc.if_else(column.is_valid(), json_texts(column, JsonForm.DOCUMENT, name=name), pa.scalar(None, TEXT))
    if is_binary_type(kind):
        # For bytes without an Arrow kernel: a loop over the values, 0.3 s a million.
        return pa.array([None if each is None else f"\\x{each.hex()}" for each in column.to_pylist()], TEXT)
    # Not by `value_texts`, which drops the sign of -0.0.
    return column.cast(TEXT) if pa.types.is_floating(kind) else value_texts(column)


def read_expression(kind: pa.DataType) -> str:
    """SQL of a column, to be formatted with its name, in a form that Python has for all values."""
    # Python has no year 10000, and PostgreSQL has.
    if pa.types.is_date(kind):
        return "{}::date - date '1970-01-01'"
    if _is_micros(kind):
        return "(extract(epoch from {}) * 1000000)::bigint"
    if isinstance(kind, pa.UuidType):
        return "uuid_send({})"
    return "{}::text" if pa.types.is_nested(kind) or pa.types.is_timestamp(kind) else "{}"


def read_column(values: Sequence[Any], kind: pa.DataType, *, place: str) -> pa.Array:
    """The values of `read_expression` as a column."""
    with reading(place):
        return _column(values, kind)


def _column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_date(kind):
        return pa.array(values, pa.int32()).cast(kind)
    if _is_micros(kind):
        return pa.array(values, pa.int64()).cast(pa.time64("us") if pa.types.is_time(kind) else kind)
    parse = parser(kind, JsonForm.DOCUMENT)
    if pa.types.is_nested(kind):
        rows = [{"": None if each is None else parse(json.loads(each))} for each in values]
        return parsed_rows(rows, pa.schema([("", kind)])).column(0)
    return pa.array(list(map(parse, values)) if pa.types.is_timestamp(kind) else values, kind)


def _is_micros(kind: pa.DataType) -> bool:
    return pa.types.is_time(kind) or (pa.types.is_timestamp(kind) and kind.unit != "ns")
