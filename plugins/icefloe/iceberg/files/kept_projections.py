"""Projections of files that were read before: most files of a table have the same columns as the one before."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from icefloe.iceberg.data_file import Constant
from icefloe.iceberg.projection.file_columns import FileColumn, file_columns
from icefloe.iceberg.projection.projection import Projection, plan_projection
from icefloe.iceberg.schemas.table_schema import TableSchema

__all__ = ["KeptProjections"]

_KEPT_SCHEMAS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """A projection, with all that it was planned from."""

    schema: TableSchema
    file_schema: pa.Schema
    constants: Mapping[str, Constant]
    columns: tuple[FileColumn, ...]
    projection: Projection


class KeptProjections:
    """The last projection of each of a few schemas.

    Used by one thread.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, bool], _Kept] = OrderedDict()

    def of(
        self,
        file_schema: pa.Schema,
        schema: TableSchema,
        constants: Mapping[str, Constant],
        *,
        keep_dictionaries: bool,
    ) -> tuple[tuple[FileColumn, ...], Projection]:
        """The columns of a file, and their projection; arguments and errors are those of `plan_projection`."""
        # A schema is kept with its projection, so no other one gets its id.
        key = id(schema), keep_dictionaries
        kept = self._kept.get(key)
        # Field ids are in the metadata of the fields.
        if kept is None or not kept.file_schema.equals(file_schema, check_metadata=True) or kept.constants != constants:
            columns = file_columns(file_schema, schema.name_mapping)
            projection = plan_projection(columns, schema.columns, constants, keep_dictionaries=keep_dictionaries)
            kept = self._kept[key] = _Kept(
                schema=schema, file_schema=file_schema, constants=constants, columns=columns, projection=projection
            )
            if len(self._kept) > _KEPT_SCHEMAS:
                self._kept.popitem(last=False)
        return kept.columns, kept.projection
