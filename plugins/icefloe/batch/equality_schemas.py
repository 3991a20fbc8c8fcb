"""The key columns of a batch's equality delete files, as the plan carries them."""

from collections.abc import Iterable, Mapping
from typing import Any

from icefloe.iceberg.delete_file import DeleteFile
from icefloe.iceberg.schemas.equality_schema import equality_schema
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.iceberg.table import Table

__all__ = ["EqualitySchemas", "equality_schemas", "equality_schemas_from_json", "equality_schemas_to_json"]

EqualitySchemas = Mapping[tuple[int, ...], TableSchema]
"""Schemas by the field ids of equality delete files."""


def equality_schemas(table: Table, delete_files: Iterable[DeleteFile]) -> EqualitySchemas:
    """The schemas that the keys of some delete files are read in.

    Raises:
        TerminalError: a delete file names a column that no schema of the table has.
    """
    field_ids = {delete_file.equality_field_ids for delete_file in delete_files} - {()}
    return {ids: equality_schema(table.metadata, ids) for ids in sorted(field_ids)}


def equality_schemas_to_json(schemas: EqualitySchemas) -> dict[str, Mapping[str, Any]]:
    """The schemas as the plan holds them, by the field ids joined by commas."""
    return {",".join(map(str, ids)): schema.schema_json for ids, schema in schemas.items()}


def equality_schemas_from_json(document: Mapping[str, Mapping[str, Any]], *, name_mapping: Any) -> EqualitySchemas:
    """The schemas in a result of ``equality_schemas_to_json``."""
    return {
        tuple(map(int, ids.split(","))): TableSchema.from_json(columns, name_mapping=name_mapping)
        for ids, columns in document.items()
    }
