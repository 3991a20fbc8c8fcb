"""The schema of one snapshot, as the rows of other snapshots fit into it."""

from collections.abc import Collection, Iterable

from pyiceberg.schema import Schema, index_by_id
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

__all__ = ["relaxed_schema"]


def relaxed_schema(schema: Schema, others: Iterable[Schema]) -> Schema:
    """The same columns, of which none is required that another schema of the table has optional.

    A batch delivers rows of several states, and a null that one of them allowed must pass: before a column was made
    required, or on the way back behind the commit that made it optional. Identifier fields stay required.

    >>> from pyiceberg.types import LongType
    >>> id, x = NestedField(1, "id", LongType(), required=True), NestedField(2, "x", LongType(), required=True)
    >>> relaxed_schema(Schema(id, x), [Schema(id, x.model_copy(update={"required": False}))])
    Schema(NestedField(field_id=1, name='id', field_type=LongType(), required=True), \
NestedField(field_id=2, name='x', field_type=LongType(), required=False), schema_id=0, identifier_field_ids=[])
    """
    optional = {field_id for other in others for field_id, field in index_by_id(other).items() if field.optional}
    optional -= _held(schema)
    if not any(field.required and field_id in optional for field_id, field in index_by_id(schema).items()):
        return schema
    return Schema(
        *_fields(schema.fields, optional), schema_id=schema.schema_id, identifier_field_ids=schema.identifier_field_ids
    )


def _held(schema: Schema) -> set[int]:
    """The identifier fields and the structs around them, which Iceberg demands to be required."""
    names = [schema.find_column_name(field_id) or "" for field_id in schema.identifier_field_ids]
    parts = [name.split(".") for name in names]
    around = {".".join(each[:length]) for each in parts for length in range(1, len(each) + 1)}
    return {field_id for field_id in schema.field_ids if schema.find_column_name(field_id) in around}


def _fields(fields: Iterable[NestedField], optional: Collection[int]) -> list[NestedField]:
    return [
        field.model_copy(
            update={
                "required": field.required and field.field_id not in optional,
                "field_type": _type(field.field_type, optional),
            }
        )
        for field in fields
    ]


def _type(kind: IcebergType, optional: Collection[int]) -> IcebergType:
    match kind:
        case StructType():
            return StructType(*_fields(kind.fields, optional))
        case ListType():
            return ListType(
                kind.element_id,
                _type(kind.element_type, optional),
                element_required=kind.element_required and kind.element_id not in optional,
            )
        case MapType():
            return MapType(
                kind.key_id,
                _type(kind.key_type, optional),
                kind.value_id,
                _type(kind.value_type, optional),
                value_required=kind.value_required and kind.value_id not in optional,
            )
    return kind
