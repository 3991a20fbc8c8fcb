"""Columns by dotted names, nested in structs but not in lists or maps."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema, prune_columns
from pyiceberg.types import NestedField, StructType

from icefloe.errors import TerminalError

__all__ = ["IdentifierColumns", "fields_by_name", "nearest_names", "optional_fields", "struct_paths"]


_NAMED: Final = 10


def struct_paths(schema: Schema | StructType, parents: tuple[str, ...] = ()) -> dict[int, tuple[str, ...]]:
    """Names from the top of the schema down, by field id, in its order.

    >>> from pyiceberg.types import LongType
    >>> struct_paths(Schema(NestedField(2, "place", StructType(NestedField(3, "id", LongType())))))
    {2: ('place',), 3: ('place', 'id')}
    """
    found: dict[int, tuple[str, ...]] = {}
    for field in schema.fields:
        found[field.field_id] = (*parents, field.name)
        if isinstance(field.field_type, StructType):
            found |= struct_paths(field.field_type, found[field.field_id])
    return found


def fields_by_name(schema: Schema) -> dict[str, NestedField]:
    """The same columns by their dotted names."""
    return {".".join(path): schema.find_field(field_id) for field_id, path in struct_paths(schema).items()}


def optional_fields(fields: Iterable[NestedField]) -> list[NestedField]:
    """The same fields, optional, in structs too: inside a null struct a required field is null."""
    return [field.model_copy(update={"required": False, "field_type": _relaxed(field.field_type)}) for field in fields]


def _relaxed(field_type: object) -> object:
    return StructType(*optional_fields(field_type.fields)) if isinstance(field_type, StructType) else field_type


def nearest_names(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """The most similar known names, otherwise the first few.

    >>> nearest_names("Citi", ["id", "city", "citizen"]), nearest_names("x", ["id", "city"])
    (('city', 'citizen'), ('id', 'city'))
    """
    by_folded = {other.casefold(): other for other in known}
    near = difflib.get_close_matches(name.casefold(), by_folded, n=3) or list(by_folded)[:_NAMED]
    return tuple(by_folded[other] for other in near)


@dataclass(frozen=True, slots=True)
class IdentifierColumns:
    """Columns that identify rows; false if there are none.

    Attributes:
        paths: of each column, the names from the top of the schema down; one name unless it is nested in structs.
    """

    paths: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def named(cls, schema: Schema, names: Sequence[str], *, noun: str = "identifier") -> Self:
        """Columns of a schema by their dotted names, in that order; ``noun`` says in errors what they are for.

        >>> from pyiceberg.types import LongType
        >>> place = NestedField(2, "place", StructType(NestedField(3, "id", LongType())))
        >>> IdentifierColumns.named(Schema(NestedField(1, "id", LongType()), place), ["place.id", "id"]).paths
        (('place', 'id'), ('id',))
        """
        paths = struct_paths(schema).items()
        known = {".".join(path): path for field_id, path in paths if schema.find_type(field_id).is_primitive}
        rule = f"{noun}s are primitive and outside of lists and maps"
        _check_names(schema, names, known, noun=f"{noun} column", rule=rule)
        return cls(tuple(known[name] for name in names))

    def __bool__(self) -> bool:
        return bool(self.paths)

    @property
    def names(self) -> tuple[str, ...]:
        """Dotted names."""
        return tuple(map(".".join, self.paths))

    def values(self, batch: pa.RecordBatch | pa.Table) -> list[pa.Array | pa.ChunkedArray]:
        """The values of each row: null if a struct around them is.

        >>> batch = pa.RecordBatch.from_pydict({"place": [{"id": 1}, None]})
        >>> IdentifierColumns((("place", "id"),)).values(batch)[0].to_pylist()
        [1, None]
        """
        tops = [(batch.column(top), nested) for top, *nested in self.paths]
        return [pc.struct_field(column, nested) if nested else column for column, nested in tops]

    def missing_in(self, schema: pa.Schema) -> tuple[str, ...]:
        """Dotted names of the columns that a schema lacks.

        >>> schema = pa.schema([("place", pa.struct([("id", pa.int64())]))])
        >>> IdentifierColumns((("place", "id"), ("place", "town"))).missing_in(schema)
        ('place.town',)
        """
        return tuple(".".join(path) for path in self.paths if not _has_column(schema, path))


def _has_column(schema: pa.Schema, path: Sequence[str]) -> bool:
    fields: Any = schema
    for name in path:
        place = fields.get_field_index(name)
        if place < 0:
            return False
        fields = fields.field(place).type
    return True


def selected_schema(schema: Schema, names: Sequence[str]) -> Schema:
    """The named columns with all inside, in the schema's order, ids and defaults kept.

    >>> from pyiceberg.types import LongType
    >>> place = StructType(NestedField(3, "x", LongType()), NestedField(4, "y", LongType()))
    >>> columns = Schema(NestedField(1, "id", LongType()), NestedField(2, "place", place))
    >>> sorted(selected_schema(columns, ["place.y", "id"]).column_names)
    ['id', 'place', 'place.y']
    """
    if not names:
        raise TerminalError("columns is empty: name at least one column, or remove the key to have them all")
    known = fields_by_name(schema)
    _check_names(schema, names, known, noun="selected column", rule="name the whole list or map around it")
    paths = struct_paths(schema)
    wanted = [paths[known[name].field_id] for name in names]
    # The fields inside too: PyIceberg keeps only named ones as identifier fields.
    ids = {field_id for field_id, path in paths.items() if any(path[: len(each)] == each for each in wanted)}
    return prune_columns(schema, ids)


def _check_names(schema: Schema, names: Sequence[str], known: Iterable[str], *, noun: str, rule: str) -> None:
    for name in names:
        if name not in known:
            if name in schema.column_names:
                raise TerminalError(f"{noun} {name!r} of type {schema.find_type(name)} cannot be used: {rule}")
            near = ", ".join(map(repr, nearest_names(name, known)))
            raise TerminalError(f"{noun} {name!r} is not in the table; did you mean {near}?")
        if list(names).count(name) > 1:
            raise TerminalError(f"{noun} {name!r} is named twice: name each column once")
