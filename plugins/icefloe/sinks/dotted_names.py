"""Columns by the dotted names that identifier columns have: a column may be inside of structs."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc


def column_path(fields: Iterable[pa.Field], dotted: str) -> tuple[str, ...]:
    """The names from the top down to a column. A name may have dots itself.

    Args:
        fields: a schema, or the fields of a struct.
        dotted: the name of the column.

    >>> column_path(pa.schema({"at": pa.struct({"x.y": pa.int64()}), "at.z": pa.int64()}), "at.x.y")
    ('at', 'x.y')

    Raises:
        KeyError: there is no such column.
    """
    named = list(fields)
    if dotted in [field.name for field in named]:
        return (dotted,)
    for field in named:
        if dotted.startswith(f"{field.name}.") and pa.types.is_struct(field.type):
            try:
                return (field.name, *column_path(field.type, dotted.removeprefix(f"{field.name}.")))
            except KeyError:
                continue
    raise KeyError(dotted)


def column_type(schema: pa.Schema, dotted: str) -> pa.DataType:
    """The type of a column."""
    top, *inner = column_path(schema, dotted)
    kind = schema.field(top).type
    for name in inner:
        kind = kind.field(name).type
    return kind


def named_columns(rows: pa.RecordBatch, names: Sequence[str]) -> list[pa.Array]:
    """Columns of rows. A column inside a struct that is null is null.

    >>> rows = pa.RecordBatch.from_pydict({"at": [{"x": 1}, None]})
    >>> named_columns(rows, ["at.x"])[0].to_pylist()
    [1, None]
    """
    columns = []
    for name in names:
        top, *inner = column_path(rows.schema, name)
        column = rows.column(top)
        columns.append(pc.struct_field(column, inner) if inner else column)
    return columns


def selected_fields(fields: Iterable[pa.Field], names: Sequence[str]) -> list[pa.Field]:
    """The fields that are named, or that have named fields inside, with nothing else inside.

    Args:
        fields: a schema, or the fields of a struct.
        names: dotted names; one that no field has says nothing.

    >>> selected_fields(pa.schema({"at": pa.struct({"x": pa.int64(), "y": pa.int64()}), "v": pa.int8()}), ["at.y"])
    [pyarrow.Field<at: struct<y: int64>>]
    """
    by_name = {each.name: each for each in fields}
    whole, inside = set[str](), defaultdict[str, list[str]](list)
    for name in names:
        if name in by_name:
            whole.add(name)
            continue
        with suppress(KeyError):
            top = column_path(by_name.values(), name)[0]
            inside[top].append(name.removeprefix(f"{top}."))
    return [
        each if name in whole else each.with_type(pa.struct(selected_fields(each.type, inside[name])))
        for name, each in by_name.items()
        if name in whole or name in inside
    ]


def column_paths(fields: Iterable[pa.Field]) -> list[tuple[str, ...]]:
    """The paths of all columns, those inside of structs before the columns at the top, so that these count last."""
    paths: list[tuple[str, ...]] = []
    for field in (named := list(fields)):
        if pa.types.is_struct(field.type):
            paths += [(field.name, *path) for path in column_paths(field.type)]
    return [*paths, *((field.name,) for field in named)]
