"""Row ids (V3): the column that holds them, and the row ids that rows inherit.

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

__all__ = ["ROW_ID", "inherited_row_ids", "with_row_id"]

ROW_ID: Final = "_icefloe_row_id"
"""The name under which row ids are read; no column that icefloe delivers has it."""
_FIELD_ID: Final = 2147483540


def with_row_id(schema: TableSchema) -> TableSchema:
    """The same columns, followed by the row id."""
    columns = Schema(*schema.columns.fields, NestedField(_FIELD_ID, ROW_ID, LongType(), required=False))
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
