"""The columns of equality delete files, including columns that the table has dropped since."""

from collections.abc import Collection, Iterable, Sequence

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import IcebergType, NestedField, StructType

from icefloe.errors import TerminalError
from icefloe.iceberg.delete_file import DeleteFile
from icefloe.iceberg.schemas.table_schema import TableSchema

__all__ = ["equality_schemas"]


def equality_schemas(metadata: TableMetadata, delete_files: Iterable[DeleteFile]) -> dict[tuple[int, ...], TableSchema]:
    """The schemas that the keys of some delete files are read in, by their field ids; raises as `equality_schema`."""
    field_ids = {delete_file.equality_field_ids for delete_file in delete_files} - {()}
    return {ids: equality_schema(metadata, ids) for ids in sorted(field_ids)}


def equality_schema(metadata: TableMetadata, field_ids: Collection[int]) -> TableSchema:
    """The schema in which the keys of equality delete files and of data files are compared.

    Each field comes from the newest schema of the table that has it, so its type is the widest that it ever had.
    Nested fields stay in their structs. All fields are optional: a key that a file lacks is null.

    Raises:
        TerminalError: no schema of the table has one of the fields as a column or inside of a struct.
        NotBuiltError: this release cannot read the type of a field.

    Source: https://iceberg.apache.org/spec/#equality-delete-files
    """
    fields: list[NestedField] = []
    missing = frozenset(field_ids)
    for schema in sorted(metadata.schemas, key=lambda schema: schema.schema_id, reverse=True):
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
