"""Schemas with everything in them that data files may still hold: dropped columns and fields of structs too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import NestedField, StructType

__all__ = ["full_schema"]


def full_schema(metadata: TableMetadata, schema: Schema) -> Schema:
    """One schema of a table with what it dropped, optional and named after its field id, after what it has."""
    others = [each.as_struct() for each in metadata.schemas]
    return Schema(*_completed(schema.as_struct(), others).fields, schema_id=schema.schema_id)


def _completed(struct: StructType, others: Sequence[StructType]) -> StructType:
    versions: dict[int, list[NestedField]] = {}
    for other in others:
        for field in other.fields:
            versions.setdefault(field.field_id, []).append(field)
    present = {field.field_id for field in struct.fields}
    dropped = [each[-1] for field_id, each in versions.items() if field_id not in present]
    return StructType(
        *(_with_fields(field, versions) for field in struct.fields),
        *(
            _with_fields(field.model_copy(update={"name": f"dropped {field.field_id}", "required": False}), versions)
            for field in dropped
        ),
    )


def _with_fields(field: NestedField, versions: Mapping[int, Iterable[NestedField]]) -> NestedField:
    if not isinstance(field.field_type, StructType):
        return field
    others = [each.field_type for each in versions.get(field.field_id, ()) if isinstance(each.field_type, StructType)]
    return field.model_copy(update={"field_type": _completed(field.field_type, others)})
