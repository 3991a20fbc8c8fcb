"""The columns of equality delete files, including columns that the table has dropped since."""

from collections.abc import Collection, Iterable, Sequence

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import IcebergType, NestedField, StructType

from icefloe.errors import TerminalError
from icefloe.iceberg.delete_file import DeleteFile
from icefloe.iceberg.schemas.covering_schema import covering_schema
from icefloe.iceberg.schemas.table_schema import TableSchema, schemas_before

__all__ = ["equality_schemas"]


def equality_schemas(
    metadata: TableMetadata, delete_files: Iterable[DeleteFile], snapshot_ids: Sequence[int | None]
) -> dict[tuple[int, ...], TableSchema]:
    """The schemas that the keys of some delete files are read in, by their field ids; raises as `equality_schema`."""
    field_ids = {delete_file.equality_field_ids for delete_file in delete_files} - {()}
    return {ids: equality_schema(metadata, ids, snapshot_ids) for ids in sorted(field_ids)}


def equality_schema(
    metadata: TableMetadata, field_ids: Collection[int], snapshot_ids: Sequence[int | None]
) -> TableSchema:
    """The schema in which the keys of equality delete files and of data files are compared.

    Each field comes from the newest schema that led to one of the states, in the widest type that it has there. A table
    that was replaced may give its field id another type. A field that was dropped before a commit knew it comes from
    the newest other schema. Nested fields stay in their structs. All fields are optional: a key
    that a file lacks is null.

    Args:
        metadata: of the table.
        field_ids: of the keys.
        snapshot_ids: of the states whose files are compared.

    Raises:
        TerminalError: no schema of the table has one of the fields as a column or inside of a struct.
        NotBuiltError: this release cannot read the type of a field.

    Source: https://iceberg.apache.org/spec/#equality-delete-files
    """
    fields: list[NestedField] = []
    missing = frozenset(field_ids)
    before = schemas_before(metadata, snapshot_ids)
    others = [schema for schema in metadata.schemas if schema not in before]
    for schema in (*(covering_schema(each, before) for each in _newest_first(before)), *_newest_first(others)):
        found = _selected(schema.fields, missing)
        fields = _merged(fields, found)
        missing -= set(Schema(*found).field_ids)
    if missing:
        raise TerminalError(
            f"equality delete files of the table at {metadata.location} name field {min(missing)}, which no schema of "
            "the table has outside of lists and maps: the metadata is damaged",
            field_id=min(missing),
        )
    return TableSchema.of(Schema(*fields), metadata.name_mapping())


def _newest_first(schemas: Iterable[Schema]) -> list[Schema]:
    return sorted(schemas, key=lambda schema: schema.schema_id, reverse=True)


def _selected(fields: Sequence[NestedField], wanted: Collection[int]) -> list[NestedField]:
    """The wanted fields, each inside its structs."""
    selected = []
    for field in fields:
        if field.field_id in wanted:
            selected.append(_optional(field, field.field_type))
        elif isinstance(field.field_type, StructType):
            inner = _selected(field.field_type.fields, wanted)
            if inner:
                selected.append(_optional(field, StructType(*inner)))
    return selected


def _merged(fields: Sequence[NestedField], others: Sequence[NestedField]) -> list[NestedField]:
    """The fields of both sequences; a struct that is in both gets the fields of both."""
    merged = {field.field_id: field for field in fields}
    for other in others:
        field = merged.get(other.field_id, other)
        inner = _merged(_children(field), _children(other))
        merged[other.field_id] = _optional(field, StructType(*inner)) if inner else field
    return list(merged.values())


def _children(field: NestedField) -> Sequence[NestedField]:
    return field.field_type.fields if isinstance(field.field_type, StructType) else ()


def _optional(field: NestedField, kind: IcebergType) -> NestedField:
    return field.model_copy(update={"required": False, "field_type": kind})
