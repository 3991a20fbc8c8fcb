"""Paths of the columns of a schema, including columns nested in structs, without columns inside lists and maps."""

import difflib
from collections.abc import Iterable, Sequence
from typing import Final

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StructType

__all__ = ["fields_by_name", "nearest_names", "struct_paths"]

_NAMED: Final = 10


def struct_paths(schema: Schema) -> dict[int, tuple[str, ...]]:
    """Paths by field id: the names from the top of the schema down to a column, in the schema's order.

    >>> from pyiceberg.types import LongType
    >>> struct_paths(Schema(NestedField(2, "place", StructType(NestedField(3, "id", LongType())))))
    {2: ('place',), 3: ('place', 'id')}
    """
    return _paths(schema.fields, ())


def fields_by_name(schema: Schema) -> dict[str, NestedField]:
    """The same columns by their dotted names."""
    return {".".join(path): schema.find_field(field_id) for field_id, path in struct_paths(schema).items()}


def nearest_names(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Suggestions for an unknown name: the most similar known names, or the first few if none is similar.

    >>> nearest_names("Citi", ["id", "city", "citizen"]), nearest_names("x", ["id", "city"])
    (('city', 'citizen'), ('id', 'city'))
    """
    by_folded = {other.casefold(): other for other in known}
    near = difflib.get_close_matches(name.casefold(), by_folded, n=3) or list(by_folded)[:_NAMED]
    return tuple(by_folded[other] for other in near)


def _paths(fields: Sequence[NestedField], parents: tuple[str, ...]) -> dict[int, tuple[str, ...]]:
    found: dict[int, tuple[str, ...]] = {}
    for field in fields:
        found[field.field_id] = (*parents, field.name)
        if isinstance(field.field_type, StructType):
            found |= _paths(field.field_type.fields, found[field.field_id])
    return found
