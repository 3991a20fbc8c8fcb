from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from changes.hash_values import KEY
from icefloe.batch.rows.file_effects import WeightedRows
from icefloe.batch.rows.row_shape import RowShape
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.checkpoint.batch_spec import Identity
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.shuffle.blocks import BlockRows, decode_block, encode_block

SCHEMA = TableSchema.of(Schema(NestedField(1, "id", LongType()), NestedField(2, "word", StringType())))
READ = pa.record_batch(
    {
        "id": pa.array([1, None, 3], pa.int64()),
        "word": pa.array(["a", "b", None], pa.large_string()),
        TableSchema.ROW_ID: pa.array([1000, None, 1002], pa.int64()),
    }
)


def shuffled(policy: str = "none", identity: Sequence[str] = (), columns: Sequence[str] | None = None) -> RowShape:
    given = Identity(policy=policy, columns=tuple(identity))  # type: ignore[arg-type]
    return RowShape.of(SCHEMA, identity=given, columns=columns, filter_text=None, table="db.t", hash_key=KEY)


def changed(rows: RowShape) -> WeightedRows:
    compared = rows.compared(READ.select(rows.read.arrow.names))
    count = compared.num_rows
    return WeightedRows(
        batch=compared,
        row_hashes=RowHashes.of_batch(compared, key=KEY),
        change_ordinals=np.zeros(count, np.int32),
        weights=np.ones(count, np.int64),
    )


@pytest.mark.parametrize(("policy", "identity"), [("pipeline", ["id"]), ("row_id", [])])
def test_an_identity_outside_the_columns_travels_as_its_hash(policy: str, identity: list[str]) -> None:
    rows = shuffled(policy, identity, ["word"])
    batch, hashes, routed_by = rows.to_shuffle(changed(rows))
    assert batch.schema == rows.shuffled_schema
    assert batch.schema.names == ["word", "_identity"]
    assert batch.column("word").equals(READ.column("word"))
    assert hashes.equals(RowHashes.of([READ.column("word")], key=KEY))
    for number, found in enumerate(batch.column("_identity").to_pylist()):
        assert found == routed_by[number].to_bytes(16, "big")
    assert rows.without_identity(pa.Table.from_batches([batch])).column_names == ["word"]


def test_the_hash_of_an_identity_is_that_of_its_columns() -> None:
    rows = shuffled("pipeline", ["id"], ["word"])
    _, _, routed_by = rows.to_shuffle(changed(rows))
    assert routed_by.equals(RowHashes.of([READ.column("id")], key=KEY))
    by_row_id = shuffled("row_id")
    _, hashes, routed_by = by_row_id.to_shuffle(changed(by_row_id))
    expected = RowHashes.of([READ.column(TableSchema.ROW_ID)], key=KEY)
    assert [routed_by[0], routed_by[2]] == [expected[0], expected[2]]
    # A row of before its table had row ids is its own identity.
    assert routed_by[1] == hashes[1]


def test_shuffled_rows_come_back_from_any_part_of_them() -> None:
    rows = shuffled("row_id")
    batch, _, routed_by = rows.to_shuffle(changed(rows))
    weights, ordinals = pa.array([1, 1, -1]), pa.array([0, 0, 1], pa.int32())
    block = pa.RecordBatch.from_arrays(
        [*batch.columns, weights, ordinals], schema=BlockRows.schema(rows.shuffled_schema)
    )
    [read] = decode_block(encode_block([block]), block.schema, max_bytes=1 << 20)
    back = read.select(range(read.num_columns - 2))
    assert rows.identities(back).equals(routed_by)
    parts = pa.Table.from_batches([back.slice(1, 2), back.slice(0, 0), back.slice(0, 1)])
    assert rows.identities(parts).equals(routed_by.take(np.array([1, 2, 0])))
    assert len(rows.identities(parts.slice(0, 0))) == 0
