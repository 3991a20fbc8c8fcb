"""Identifier columns: dotted names resolved against a schema, and their values taken from record batches."""

import difflib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StructType

from icefloe.errors import TerminalError

__all__ = ["ColumnPath", "has_columns", "identity_columns", "resolve_identifier_columns"]

ColumnPath = tuple[str, ...]
"""The names from the top of the schema down to a column; one name unless it is nested in structs."""


def resolve_identifier_columns(schema: Schema, names: Sequence[str]) -> tuple[ColumnPath, ...]:
    """The paths of identifier columns, in the order they are named.

    Args:
        schema: of the table's rows.
        names: dotted if a column is nested in structs; a name that has dots itself is found too.

    >>> from pyiceberg.types import LongType
    >>> place = NestedField(2, "place", StructType(NestedField(3, "id", LongType())))
    >>> resolve_identifier_columns(Schema(NestedField(1, "id", LongType()), place), ["place.id", "id"])
    (('place', 'id'), ('id',))

    Raises:
        TerminalError: a column does not exist, is named twice, is not primitive, or is inside a list or map.
    """
    paths = _struct_paths(schema.fields)
    known = {".".join(path): path for path, field in paths.items() if field.field_type.is_primitive}
    for name in names:
        if name not in known:
            raise _unusable(schema, name, list(known))
    if len(set(names)) < len(names):
        raise TerminalError(f"the identifier columns {', '.join(names)} name a column twice: name each one once")
    return tuple(known[name] for name in names)


def identity_columns(batch: pa.RecordBatch | pa.Table, paths: Sequence[ColumnPath]) -> list[pa.Array | pa.ChunkedArray]:
    """The identifier values of each row: null if the value or a struct around it is null.

    >>> batch = pa.RecordBatch.from_pydict({"place": [{"id": 1}, None]})
    >>> identity_columns(batch, [("place", "id")])[0].to_pylist()
    [1, None]
    """
    columns = []
    for top, *nested in paths:
        column = batch.column(top)
        columns.append(pc.struct_field(column, nested) if nested else column)
    return columns


def has_columns(schema: pa.Schema, paths: Sequence[ColumnPath]) -> bool:
    """True if rows of a schema have the columns of all paths.

    >>> schema = pa.schema([("place", pa.struct([("id", pa.int64())]))])
    >>> has_columns(schema, [("place", "id")]), has_columns(schema, [("place", "id"), ("place", "town")])
    (True, False)
    """
    return all(_has_column(schema, path) for path in paths)


def _has_column(schema: pa.Schema, path: ColumnPath) -> bool:
    fields: Any = schema
    for name in path:
        place = fields.get_field_index(name)
        if place < 0:
            return False
        fields = fields.field(place).type
    return True


def _struct_paths(fields: Sequence[NestedField], parents: ColumnPath = ()) -> dict[ColumnPath, NestedField]:
    found: dict[ColumnPath, NestedField] = {}
    for field in fields:
        path = (*parents, field.name)
        found[path] = field
        if isinstance(field.field_type, StructType):
            found |= _struct_paths(field.field_type.fields, path)
    return found


def _unusable(schema: Schema, name: str, known: Sequence[str]) -> TerminalError:
    if name in schema.column_names:
        return TerminalError(
            f"column {name!r} of type {schema.find_type(name)} cannot identify rows: identifier columns are primitive "
            "and not inside a list or map",
            column=name,
        )
    near = difflib.get_close_matches(name, known, n=3) or list(known)
    return TerminalError(
        f"identifier column {name!r} is not in the table; did you mean {', '.join(map(repr, near))}?",
        column=name,
        near=tuple(near),
    )
