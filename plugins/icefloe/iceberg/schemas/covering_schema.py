"""A schema made wide enough for the rows of others, and the widest type of each column."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from pyiceberg.schema import Schema, index_by_id
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    TimestampNanoType,
    TimestampType,
    UnknownType,
)

__all__ = ["covering_schema", "widest_types"]

_PROMOTED: Final[Mapping[type[IcebergType], tuple[type[IcebergType], ...]]] = {
    IntegerType: (LongType,),
    FloatType: (DoubleType,),
    DateType: (TimestampType, TimestampNanoType),
}
"""Iceberg spec, "Schema Evolution"."""


def covering_schema(schema: Schema, others: Sequence[Schema]) -> Schema:
    """The same columns, optional or of a promoted type if they are so in another schema.

    Values that one of several states allowed must pass: nulls of a column required elsewhere, and values that do not
    fit the type from before a promotion. Identifier fields stay required.

    >>> id, x = NestedField(1, "id", LongType(), required=True), NestedField(2, "x", IntegerType(), required=True)
    >>> later = Schema(id, NestedField(2, "y", LongType(), required=False))
    >>> print(covering_schema(Schema(id, x), [later]))
    table {
      1: id: required long
      2: x: optional long
    }
    """
    fields = [index_by_id(other) for other in others]
    optional = {field_id for each in fields for field_id, field in each.items() if field.optional}
    # Rows of a later schema lack the columns that it dropped; those of an earlier one have them, or a default.
    later = [index_by_id(other) for other in others if other.schema_id > schema.schema_id]
    optional |= {field_id for each in later for field_id in index_by_id(schema).keys() - each.keys()}
    relaxed = _Relaxed(optional, fields)
    relaxed.optional -= _held(schema)
    found = relaxed.fields(schema.fields)
    if tuple(found) == schema.fields:
        return schema
    return Schema(*found, schema_id=schema.schema_id, identifier_field_ids=schema.identifier_field_ids)


def widest_types(schemas: Iterable[Schema]) -> Mapping[int, PrimitiveType]:
    """The widest type of each primitive column by field id, if its other types were promoted to it.

    ``CREATE OR REPLACE TABLE`` gives a column's field id to any column of the same name. No manifest says of which type
    its values are: the column is left out.

    >>> one, other = (NestedField(1, "a", kind, required=False) for kind in (IntegerType(), LongType()))
    >>> widest_types([Schema(other), Schema(one)])
    {1: LongType()}
    >>> widest_types([Schema(one), Schema(NestedField(1, "a", DateType(), required=False))])
    {}
    """
    found: dict[int, set[IcebergType]] = {}
    for schema in schemas:
        for field_id, field in index_by_id(schema).items():
            found.setdefault(field_id, set()).add(field.field_type)
    widest = {field_id: _widest(types) for field_id, types in found.items()}
    return {field_id: kind for field_id, kind in widest.items() if isinstance(kind, PrimitiveType)}


def _held(schema: Schema) -> set[int]:
    """Identifier fields and structs around them, which Iceberg requires."""
    names = [schema.find_column_name(field_id) or "" for field_id in schema.identifier_field_ids]
    parts = [name.split(".") for name in names]
    around = {".".join(each[:length]) for each in parts for length in range(1, len(each) + 1)}
    return {field_id for field_id in schema.field_ids if schema.find_column_name(field_id) in around}


class _Relaxed:
    def __init__(self, optional: set[int], others: Sequence[Mapping[int, NestedField]]) -> None:
        self.optional = optional
        self._others = others

    def fields(self, fields: Iterable[NestedField]) -> list[NestedField]:
        return [
            field.model_copy(
                update={
                    "required": field.required and field.field_id not in self.optional,
                    "field_type": self._type(field.field_id, field.field_type),
                }
            )
            for field in fields
        ]

    def _type(self, field_id: int, kind: IcebergType) -> IcebergType:
        match kind:
            case StructType():
                return StructType(*self.fields(kind.fields))
            case ListType():
                (element,) = self.fields([kind.element_field])
                return ListType(kind.element_id, element.field_type, element_required=element.required)
            case MapType():
                key, value = self.fields([kind.key_field, kind.value_field])
                return MapType(
                    kind.key_id, key.field_type, kind.value_id, value.field_type, value_required=value.required
                )
        for other in self._others:
            if field_id in other and _is_promoted(kind, other[field_id].field_type):
                kind = other[field_id].field_type
        return kind


def _is_promoted(kind: IcebergType, other: IcebergType) -> bool:
    if isinstance(kind, DecimalType) and isinstance(other, DecimalType):
        return kind.scale == other.scale and kind.precision < other.precision
    return isinstance(other, _PROMOTED.get(type(kind), ())) or (isinstance(kind, UnknownType) and other.is_primitive)


def _widest(types: Collection[IcebergType]) -> IcebergType | None:
    widest = next(iter(types))
    for each in types:
        if _is_promoted(widest, each):
            widest = each
    return widest if all(each == widest or _is_promoted(each, widest) for each in types) else None
