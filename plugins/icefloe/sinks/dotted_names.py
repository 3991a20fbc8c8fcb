"""Columns by dotted names, entries of maps, and texts of moments."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_TEXT: Final = pa.large_string()


def column_path(fields: Iterable[pa.Field], dotted: str) -> tuple[str, ...]:
    """The names from the top down to a column, or KeyError. A name may have dots itself.

    >>> column_path(pa.schema({"at": pa.struct({"x.y": pa.int64()}), "at.z": pa.int64()}), "at.x.y")
    ('at', 'x.y')
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
    """The named fields, with only named fields inside.

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
    """The paths of all columns, those inside of structs first, so that columns at the top count last."""
    paths: list[tuple[str, ...]] = []
    for field in (named := list(fields)):
        if pa.types.is_struct(field.type):
            paths += [(field.name, *path) for path in column_paths(field.type)]
    return [*paths, *((field.name,) for field in named)]


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
        return pc.binary_join_element_wise(texts, pa.scalar("Z", _TEXT), pa.scalar("", _TEXT))
    texts = pc.replace_substring(moments.cast(_TEXT), " ", "T")
    # Arrow has no text for years beyond 32767, which Spark writes: it gives "<value out of range: 106751991>".
    is_beyond = pc.fill_null(pc.starts_with(texts, "<"), False)
    if not pc.any(is_beyond).as_py():
        return texts
    beyond = np.datetime_as_string(moments.filter(is_beyond).to_numpy(zero_copy_only=False))
    return pc.replace_with_mask(texts, is_beyond, pa.array(beyond.tolist(), _TEXT))
