"""Row lineage (V3): the columns that hold it, and what rows inherit if their file has no such columns.

Source: https://iceberg.apache.org/spec/#row-lineage
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from icefloe.iceberg.schemas.table_schema import TableSchema

__all__ = ["ROW_ID", "inherited_row_ids", "inherited_sequence_numbers", "lineage_schema", "with_row_id"]

ROW_ID: Final = "_icefloe_row_id"
"""The name under which row ids are read; no column that icefloe delivers has it."""
_FIELD_ID: Final = 2147483540
_SEQUENCE_NUMBER: Final = "_last_updated_sequence_number"
_SEQUENCE_NUMBER_FIELD_ID: Final = 2147483539


def with_row_id(schema: TableSchema) -> TableSchema:
    """The same columns, followed by the row id."""
    columns = Schema(*schema.columns.fields, NestedField(_FIELD_ID, ROW_ID, LongType(), required=False))
    return TableSchema.of(columns, schema.name_mapping)


def lineage_schema(schema: TableSchema) -> TableSchema:
    """The row id and the last updated sequence number, and no column of the table."""
    columns = Schema(
        NestedField(_FIELD_ID, ROW_ID, LongType(), required=False),
        NestedField(_SEQUENCE_NUMBER_FIELD_ID, _SEQUENCE_NUMBER, LongType(), required=False),
    )
    return TableSchema.of(columns, schema.name_mapping)


def inherited_row_ids(row_ids: pa.Array, first_row_id: int | None, positions: NDArray[np.int64]) -> pa.Array:
    """Row ids from the file; if a row has none there, the row id follows from its position.

    Args:
        row_ids: the row ids in the file; null if the file has none.
        first_row_id: of the file; None: it has no row ids by which its step could pair updates, whatever the file says.
        positions: of the rows in the file.
    """
    if first_row_id is None:
        return pa.nulls(len(row_ids), pa.int64())
    if not row_ids.null_count:
        return row_ids
    return pc.coalesce(row_ids, pa.array(positions + first_row_id, pa.int64()))


def inherited_sequence_numbers(numbers: pa.Array, first_row_id: int | None, sequence_number: int) -> pa.Array:
    """Sequence numbers from the file; a row without one was last updated by the commit that added the file.

    Args:
        numbers: the last updated sequence numbers in the file; null if the file has none.
        first_row_id: of the file; None: its rows have no lineage, whatever the file says.
        sequence_number: the file's data sequence number.
    """
    if first_row_id is None:
        return pa.nulls(len(numbers), pa.int64())
    return pc.fill_null(numbers, sequence_number)
