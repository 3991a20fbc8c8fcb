import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import create_mapping_from_schema
from pyiceberg.types import LongType, NestedField

from icefloe.iceberg.schemas.table_schema import ROW_ID, TableSchema, inherited_row_ids, with_row_id

COLUMNS = Schema(NestedField(1, "id", LongType(), required=True))


def test_row_ids_come_after_the_columns_and_are_found_by_the_reserved_id() -> None:
    names = create_mapping_from_schema(COLUMNS)
    found = with_row_id(TableSchema.of(COLUMNS, names))
    assert found.arrow.names == ["id", ROW_ID]
    assert found.columns.find_field(ROW_ID).field_id == 2**31 - 1 - 107
    assert found.name_mapping == names


@pytest.mark.parametrize(
    ("written", "first_row_id", "expected"),
    [
        ([None, None, None], 1000, [1002, 1005, 1006]),
        ([7, None, 3], 1000, [7, 1005, 3]),
        ([7, 8, 3], 1000, [7, 8, 3]),
        ([None, 8, None], None, [None, None, None]),
        ([None, None, None], 0, [2, 5, 6]),
    ],
)
def test_a_row_without_an_id_has_that_of_its_position(
    written: list[int | None], first_row_id: int | None, expected: list[int | None]
) -> None:
    found = inherited_row_ids(pa.array(written, pa.int64()), first_row_id, np.array([2, 5, 6]))
    assert found.to_pylist() == expected
    assert found.type == pa.int64()
