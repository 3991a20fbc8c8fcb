"""Operations that every writer has: appends, schema, partitions, and moves of main."""

from __future__ import annotations

from collections.abc import Sequence

from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField, PrimitiveType, StringType, StructType

from histories.bench import Bench, pick
from histories.column_values import PROMOTIONS, Seeds, type_named, value_of

__all__ = ["TABLE_CHANGES", "leaf_paths"]


def append(bench: Bench, files: Sequence[Sequence[Seeds]]) -> None:
    """Append rows: a list for each file."""
    bench.append(files)


def add_column(
    bench: Bench,
    name: str,
    type: str,  # noqa: A002 - as in JSON
    parent: int | None = None,
    default: int | None = None,
) -> None:
    """Add a column, or a field of the struct that ``parent`` stands for; one of that name may have been dropped.

    The default is for tables of V3 and types whose values need no translation between Python and Java.
    """
    path = [] if parent is None else pick(_structs(bench.table().schema()), parent)
    kind = type_named(type)
    can_default = bench.table().metadata.format_version >= 3 and isinstance(kind, IntegerType | StringType)
    with bench.edit_schema() as edits:
        edits.add([*path, name], kind, value_of(kind, default) if can_default else None)


def drop_column(bench: Bench, column: int) -> None:
    """Drop a column or a field of a struct; one of each always stays."""
    schema = bench.table().schema()
    paths = [
        path
        for path in _struct_paths(schema)
        if _has_siblings(schema, path) and schema.find_field(".".join(path)).field_id not in bench.undroppable_ids
    ]
    with bench.edit_schema() as edits:
        edits.drop(pick(paths, column))


def rename_column(bench: Bench, column: int, name: str) -> None:
    """Give a column or a field of a struct another name."""
    with bench.edit_schema() as edits:
        edits.rename(pick(_struct_paths(bench.table().schema()), column), name)


def promote_column(bench: Bench, column: int) -> None:
    """Make an int a long, a float a double or a decimal wider."""
    schema = bench.table().schema()
    paths = [path for path in leaf_paths(schema) if str(schema.find_type(".".join(path))) in PROMOTIONS]
    path = pick(paths, column)
    with bench.edit_schema() as edits:
        edits.promote(path, PROMOTIONS[str(schema.find_type(".".join(path)))])


def move_column(bench: Bench, column: int) -> None:
    """Put a column in front."""
    with bench.edit_schema() as edits:
        edits.move_first(pick(_struct_paths(bench.table().schema()), column))


def make_optional(bench: Bench, column: int) -> None:
    """Let a required column be null."""
    required = [field.name for field in bench.table().schema().fields if field.required]
    with bench.edit_schema() as edits:
        edits.make_optional([pick(required, column)])


def identify(bench: Bench, columns: Sequence[int]) -> None:
    """Set the table's identifier fields, to required columns or none."""
    schema = bench.table().schema()
    candidates = [
        field.name for field in schema.fields if field.required and isinstance(field.field_type, PrimitiveType)
    ]
    with bench.edit_schema() as edits:
        edits.identify(sorted({pick(candidates, column) for column in columns}))


def add_partition(bench: Bench, column: int, transform: str) -> None:
    """Partition by another transform from now on."""
    fields = [f for f in bench.table().schema().fields if isinstance(f.field_type, PrimitiveType)]
    fields = [field for field in fields if not isinstance(field.field_type, bench.unpartitionable)]
    with bench.edit_partitions() as edits:
        edits.add(pick(fields, column).name, transform)


def drop_partition(bench: Bench, field: int) -> None:
    """Leave out a partition field from now on."""
    names = [each.name for each in bench.table().spec().fields]
    with bench.edit_partitions() as edits:
        edits.drop(pick(names, field))


def roll_back(bench: Bench, snapshot: int) -> None:
    """Go back to an ancestor."""
    bench.roll_back(pick(bench.trace.lineage(bench.head())[:-1], snapshot))


def set_current(bench: Bench, snapshot: int) -> None:
    """Go to any snapshot that is still there."""
    bench.set_current(pick([each.snapshot_id for each in bench.table().metadata.snapshots], snapshot))


def expire(bench: Bench, count: int) -> None:
    """Forget the oldest snapshots of main; its head stays."""
    table = bench.table()
    lineage = [each for each in bench.trace.lineage(bench.head())[:-1] if table.snapshot_by_id(each)]
    expired = lineage[: count % (len(lineage) + 1)]
    bench.states.keep(expired)
    bench.expire(expired)


TABLE_CHANGES = {
    function.__name__: function
    for function in (
        append,
        add_column,
        drop_column,
        rename_column,
        promote_column,
        move_column,
        make_optional,
        identify,
        add_partition,
        drop_partition,
        roll_back,
        set_current,
        expire,
    )
}


def leaf_paths(schema: Schema) -> list[list[str]]:
    """Primitive columns and primitive fields of structs, not those in lists or maps."""
    return [path for path, field in _walk(schema.fields, []) if isinstance(field.field_type, PrimitiveType)]


def _struct_paths(schema: Schema) -> list[list[str]]:
    return [path for path, _ in _walk(schema.fields, [])]


def _structs(schema: Schema) -> list[list[str]]:
    return [path for path, field in _walk(schema.fields, []) if isinstance(field.field_type, StructType)]


def _has_siblings(schema: Schema, path: Sequence[str]) -> bool:
    """True if the struct (or table) of a field has other fields: Parquet knows no empty struct."""
    parent = schema.find_type(".".join(path[:-1])) if path[1:] else schema.as_struct()
    return isinstance(parent, StructType) and len(parent.fields) > 1


def _walk(fields: Sequence[NestedField], parents: list[str]) -> list[tuple[list[str], NestedField]]:
    found: list[tuple[list[str], NestedField]] = []
    for field in fields:
        path = [*parents, field.name]
        found.append((path, field))
        if isinstance(field.field_type, StructType):
            found += _walk(field.field_type.fields, path)
    return found
