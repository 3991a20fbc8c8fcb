import numpy as np
import pyarrow as pa

from changes.hash_values import KEY
from icefloe.batch import staged_changes
from icefloe.batch.staged_changes import CHANGE_WEIGHTS, StagedChanges
from icefloe.changes.columns import ChangeType
from icefloe.changes.row_hash.row_hashes import row_hashes_of_batch
from support.pipelines.workshop import Workshop


def test_every_change_type_has_a_weight() -> None:
    assert set(CHANGE_WEIGHTS) == set(ChangeType)
    assert sum(CHANGE_WEIGHTS.values()) == 0


def test_delivered_rows_are_counted_and_summed_in_any_number_of_batches(workshop: Workshop, monkeypatch) -> None:
    workshop.append([1, 2, 3])
    folder = workshop.open().batch_folder
    rows = pa.record_batch(
        {"id": [1, 2, 3], "value": [1.0, 2.0, 3.0], "word": pa.array(list("abc"), pa.large_string())},
        schema=folder.shape.delivered.arrow,
    )
    hashes = row_hashes_of_batch(rows, key=KEY)
    picks, types = np.array([2, 0, 0, 1]), np.array([1, 2, 3, 0], np.uint8)
    delivered = []
    for batch_rows in (1 << 16, 3, 1):
        monkeypatch.setattr(staged_changes, "_BATCH_ROWS", batch_rows)
        staged = StagedChanges(folder)
        batches = list(staged.batches(rows, hashes, picks, types, np.zeros(3, np.int32)))
        assert len(batches) == -(-4 // batch_rows)
        assert staged.counts == {"insert": 1, "delete": 1, "update_before": 1, "update_after": 1}
        delivered.append((pa.Table.from_batches(batches).combine_chunks(), staged.sums.to_documents()[0].hash_sum))
    assert delivered[0] == delivered[1] == delivered[2]
    table, hash_sum = delivered[0]
    assert table.schema == staged.schema
    assert table["id"].to_pylist() == [3, 1, 1, 2]
    assert table["_change_type"].to_pylist() == ["DELETE", "UPDATE_BEFORE", "UPDATE_AFTER", "INSERT"]
    assert set(table["_batch"].to_pylist()) == {0}
    assert hash_sum == (hashes[1] - hashes[2]) % 2**128


def test_batches_of_large_rows_have_few_of_them(workshop: Workshop) -> None:
    workshop.append([1])
    folder = workshop.open().batch_folder
    words = pa.array(["x" * (1 << 20)] * 100, pa.large_string())
    rows = pa.record_batch({"id": range(100), "value": [1.0] * 100, "word": words}, schema=folder.shape.delivered.arrow)
    batches = StagedChanges(folder).batches(
        rows, row_hashes_of_batch(rows, key=KEY), np.arange(100), np.zeros(100, np.uint8), np.zeros(100, np.int32)
    )
    assert [batch.num_rows for batch in batches] == [63, 37]
