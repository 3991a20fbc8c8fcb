"""Rows of one schema of a table in the columns of another one, by field id."""

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import create_mapping_from_schema

from icefloe.iceberg.projection.file_columns import file_columns
from icefloe.iceberg.projection.projection import plan_projection
from icefloe.iceberg.schemas.table_schema import TableSchema

__all__ = ["rows_in_schema"]


def rows_in_schema(rows: pa.RecordBatch, of: TableSchema, to: TableSchema) -> pa.RecordBatch:
    """Rows with the columns of another schema; a column that is missing gets its initial default, as in a data file.

    Nulls of a column that became required later are kept: the rows may be from before that.

    Args:
        rows: with columns of the first schema, under its names.
        of: the first schema. It gives the columns their field ids.
        to: the other schema.

    Raises:
        ColumnError: a column may not become the other type.
        pa.ArrowInvalid: a value does not fit the other type.
    """
    columns = file_columns(rows.schema, create_mapping_from_schema(of.columns))
    optional = Schema(*(field.model_copy(update={"required": False}) for field in to.columns.fields))
    projection = plan_projection(columns, optional, {})
    return projection.apply(rows, {place: place for place in range(rows.num_columns)})
