"""The key of a row on the command line."""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Self
from uuid import UUID

import pyarrow as pa

from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.errors import TerminalError, UsageError
from icefloe.iceberg.filters.row_filter import RowFilter
from icefloe.iceberg.schemas.column_paths import (
    ColumnPath,
    has_columns,
    identity_columns,
    resolve_identifier_columns,
)
from icefloe.iceberg.schemas.table_schema import TableSchema

_LARGEST: Final = sys.float_info.max


@dataclass(frozen=True, slots=True, kw_only=True)
class RowKey:
    """The value of each identifier column.

    Attributes:
        texts: as written, by dotted name.
        values: one row, typed as the identifier columns, with their dotted names.
        filter: an Iceberg expression for its rows.
    """

    texts: Mapping[str, str]
    paths: tuple[ColumnPath, ...]
    values: pa.RecordBatch
    filter: str

    @classmethod
    def parse(cls, given: Sequence[str], schema: TableSchema, identity: Sequence[str]) -> Self:
        """The key in arguments such as ``id=4``; a single identifier column needs no name.

        Args:
            identity: dotted names of the identifier columns; empty: any columns may be named.
        """
        whole = " ".join(given)
        if len(identity) == 1:
            texts = {identity[0]: whole.removeprefix(f"{identity[0]}=")}
        else:
            texts = dict(each.split("=", 1) for each in given if "=" in each)
        if not texts or (identity and set(texts) != set(identity)):
            names = " ".join(f"{name}=VALUE" for name in identity) or "COLUMN=VALUE"
            raise UsageError(f"{whole!r} names no row: write {names}", columns=tuple(identity))
        ordered = list(identity) or list(texts)
        paths = resolve_identifier_columns(schema.columns, ordered)
        empty = pa.RecordBatch.from_arrays([pa.nulls(0, each.type) for each in schema.arrow], schema.arrow.names)
        columns = [
            _value(texts[name], column.type, name, schema)
            for name, column in zip(ordered, identity_columns(empty, paths), strict=True)
        ]
        return cls(
            texts={name: texts[name] for name in ordered},
            paths=paths,
            values=pa.RecordBatch.from_arrays(columns, ordered),
            filter=" and ".join(
                _condition(name, texts[name], column, schema) for name, column in zip(ordered, columns, strict=True)
            ),
        )

    def rows_in(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch with this key."""
        return batch.filter(RowHashes.among(identity_columns(batch, self.paths), self.values.columns))

    def is_shown_by(self, schema: pa.Schema) -> bool:
        """True if rows of a schema show this key."""
        return has_columns(schema, self.paths)


def _value(text: str, kind: pa.DataType, name: str, schema: TableSchema) -> pa.Array:
    is_nanoseconds = pa.types.is_timestamp(kind) and kind.unit == "ns"
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind) or is_nanoseconds:
        raise _untraceable(name, text, schema)
    is_uuid = kind == pa.uuid()
    try:
        if is_uuid:
            return pa.ExtensionArray.from_storage(kind, pa.array([UUID(text).bytes], kind.storage_type))
        # Arrow reads no times, but the time of a timestamp.
        if pa.types.is_time(kind):
            return pa.array([f"1970-01-01T{text}"]).cast(pa.timestamp("us")).cast(kind)
        return pa.array([text], pa.string()).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as cause:
        shown = "uuid" if is_uuid else kind
        raise UsageError(f"{name}={text} is no value of the type {shown}: write it as the table has it") from cause


def _condition(name: str, text: str, column: pa.Array, schema: TableSchema) -> str:
    value: object = column[0].as_py()
    condition = f"{_quoted(name)} {_comparison(value)}"
    try:
        said = RowFilter.parse(condition, schema.columns, table="").compared
    except TerminalError as cause:
        raise _untraceable(name, text, schema) from cause
    # The parser changes backslashes in names, and tabs everywhere, without a word.
    if said.keys() != {name} or (isinstance(value, str) and said[name] != [value]):
        raise _untraceable(name, text, schema)
    return condition


def _untraceable(name: str, text: str, schema: TableSchema) -> UsageError:
    given, kind = f"{name}={text}", str(schema.columns.find_type(name))
    return UsageError(
        f"trace cannot take {given!r} of type {kind}, because the text of a filter cannot hold it: look for the row "
        "in the sink",
        column=name,
        type=kind,
    )


def _quoted(name: str) -> str:
    """A dotted name in quotes; PyIceberg reads a backslash in quotes as a quote."""
    return '"' + name.replace('"', "\\") + '"'


def _comparison(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value):
            return "is nan"
        # Only infinity is beyond the largest double, and a filter's text has no word for infinity.
        return f"> {_digits(_LARGEST)}" if value > 0 else f"< {_digits(-_LARGEST)}"
    if isinstance(value, bool):
        return f"= {str(value).lower()}"
    if isinstance(value, int):
        return f"= {value}"
    if isinstance(value, float):
        return f"= {_digits(value)}"
    text = value.isoformat() if hasattr(value, "isoformat") else str(value)
    return "= '" + text.replace("'", "''") + "'"


def _digits(value: float) -> str:
    """A finite number without an exponent, as filters need it.

    >>> _digits(1e16), _digits(-5e-7)
    ('10000000000000000', '-0.0000005')
    """
    return f"{Decimal(repr(value)):f}"
