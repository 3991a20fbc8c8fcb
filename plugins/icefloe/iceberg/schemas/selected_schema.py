"""Projection: the schema of the columns that a pipeline names."""

from collections.abc import Collection, Iterable, Sequence

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StructType

from icefloe.errors import TerminalError
from icefloe.iceberg.schemas.struct_paths import fields_by_name, nearest_names


def selected_schema(schema: Schema, names: Sequence[str]) -> Schema:
    """The named columns with everything inside them, in the schema's order, ids and defaults kept.

    Args:
        schema: of a table.
        names: case sensitive; dotted names leave the other fields of a struct out.

    >>> from pyiceberg.types import LongType
    >>> place = StructType(NestedField(3, "x", LongType()), NestedField(4, "y", LongType()))
    >>> columns = Schema(NestedField(1, "id", LongType()), NestedField(2, "place", place))
    >>> sorted(selected_schema(columns, ["place.y", "id"]).column_names)
    ['id', 'place', 'place.y']

    Raises:
        TerminalError: there are no names, or a name is given twice, is not a column, or is inside a list or map.
    """
    if not names:
        raise TerminalError("columns is empty: name at least one column, or remove the key to have them all")
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if list(names).count(name) > 1})
        raise TerminalError(
            f"columns names {', '.join(twice)} more than once: name each column once", columns=tuple(twice)
        )
    known = fields_by_name(schema)
    for name in names:
        if name not in known:
            raise _unusable(schema, name, known)
    # Two schemas, because one refuses identifier fields that it does not have.
    fields = list(_selected(schema.fields, {known[name].field_id for name in names}))
    selected = Schema(*fields)
    identifiers = [field_id for field_id in schema.identifier_field_ids if field_id in selected.field_ids]
    return Schema(*fields, schema_id=schema.schema_id, identifier_field_ids=identifiers)


def _selected(fields: Iterable[NestedField], ids: Collection[int]) -> Iterable[NestedField]:
    for field in fields:
        if field.field_id in ids:
            yield field
        elif isinstance(field.field_type, StructType) and (inner := list(_selected(field.field_type.fields, ids))):
            yield field.model_copy(update={"field_type": StructType(*inner)})


def _unusable(schema: Schema, name: str, known: Iterable[str]) -> TerminalError:
    if name in schema.column_names:
        return TerminalError(
            f"columns names {name!r}, which is inside a list or map: name the whole list or map",
            column=name,
        )
    near = nearest_names(name, known)
    return TerminalError(
        f"columns names {name!r}, which the table does not have; did you mean {', '.join(map(repr, near))}?",
        column=name,
        near=near,
    )
