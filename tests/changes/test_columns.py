import numpy as np
import pyarrow as pa
import pytest

from icefloe.changes.columns import ChangeColumns, ChangeType
from icefloe.errors import TerminalError

TABLE = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"}), pa.field("name", pa.large_string())])
CHANGE_FIELDS = [
    ("_batch", pa.int64()),
    ("_change_type", pa.string()),
    ("_change_ordinal", pa.int32()),
    ("_commit_snapshot_id", pa.int64()),
    ("_commit_timestamp", pa.timestamp("us", "UTC")),
]


def batch_of(**changes):
    rows = pa.RecordBatch.from_arrays(
        [pa.array([7, 8, 9]), pa.array(["x", None, "z"], pa.large_string())], schema=TABLE
    )
    given = {
        "change_types": np.array([ChangeType.DELETE, ChangeType.UPDATE_BEFORE, ChangeType.INSERT], np.uint8),
        "change_ordinals": np.array([0, 1, 1], np.int32),
        "snapshot_ids": np.array([2**62, 5], np.int64),
        "timestamps_us": np.array([1_000_000, 2_000_001], np.int64),
        "batch_number": 3,
    }
    return ChangeColumns.batch(rows, **given | changes)


def test_the_change_columns_come_before_the_columns_of_the_table():
    schema = ChangeColumns.schema(TABLE, with_batch=True)
    assert [(field.name, field.type) for field in schema][:5] == CHANGE_FIELDS
    assert list(schema)[5:] == list(TABLE)
    assert schema.field("id").metadata == {b"PARQUET:field_id": b"1"}
    assert ChangeColumns.schema(TABLE, with_batch=False).names == ["_change_type", *schema.names[2:]]


def test_rows_get_the_type_ordinal_snapshot_and_time_of_their_change():
    batch = batch_of()
    batch.validate(full=True)
    assert batch.schema.equals(ChangeColumns.schema(TABLE, with_batch=True), check_metadata=True)
    columns = {name: values.to_pylist() for name, values in zip(batch.schema.names, batch.columns, strict=True)}
    assert columns["_batch"] == [3, 3, 3]
    assert columns["_change_type"] == ["DELETE", "UPDATE_BEFORE", "INSERT"]
    assert columns["_change_ordinal"] == [0, 1, 1]
    assert columns["_commit_snapshot_id"] == [2**62, 5, 5]
    assert batch["_commit_timestamp"].cast(pa.int64()).to_pylist() == [1_000_000, 2_000_001, 2_000_001]
    assert columns["name"] == ["x", None, "z"]


@pytest.mark.parametrize("name", ["_batch", "_change_type", "_Change_Ordinal", "_COMMIT_TIMESTAMP", "_weight"])
def test_a_table_column_called_like_one_of_ours_is_refused_by_name(name):
    with pytest.raises(TerminalError, match=f"column {name} of table nyc.flights") as caught:
        ChangeColumns.refuse_in(["id", name], table="nyc.flights")
    assert caught.value.column == name
    assert caught.value.table == "nyc.flights"
