import tempfile

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icefloe.errors import TransientError
from icefloe.shuffle.blocks import BlockRows
from icefloe.shuffle.coalesce import ReduceRange
from icefloe.shuffle.committed_output import MapOutputLog
from icefloe.shuffle.fetch import fetch_blocks
from icefloe.shuffle.map_output import MapOutputWriter, new_attempt
from shuffle.memory_store import MemoryStore
from shuffle.planned_extents import planned_extents
from shuffle.shuffled_rows import TABLE_SCHEMA, commit_rows, some_rows

SCHEMA = BlockRows.schema(TABLE_SCHEMA)


def partitions_of(store, record, num_partitions):
    """The rows of each reduce partition, as a reader gets them."""
    whole = ReduceRange(range_id=0, start=0, stop=num_partitions)
    [extents] = planned_extents(store, [record], [whole], table_schema=TABLE_SCHEMA, num_partitions=num_partitions)
    blocks = fetch_blocks(store, extents, SCHEMA, max_fetch_bytes=1 << 20)
    return {block.reduce_id: pa.Table.from_batches(block.batches).to_pylist() for block in blocks}


def expected_partitions(rows):
    table = rows.batch.to_pylist()
    expected = {}
    for position, reduce_id in enumerate(rows.reduce_ids.tolist()):
        extra = {"_weight": int(rows.weights[position]), "_change_ordinal": int(rows.change_ordinals[position])}
        expected.setdefault(reduce_id, []).append(table[position] | extra)
    return expected


@settings(max_examples=30, deadline=None)
@given(
    count=st.integers(0, 120),
    num_partitions=st.sampled_from([1, 5, 64]),
    batch_rows=st.integers(1, 50),
    memory_bytes=st.sampled_from([1, 3000, 30_000, 1 << 30]),
)
def test_every_row_comes_back_in_its_partition_and_order_however_often_it_spills(
    count, num_partitions, batch_rows, memory_bytes
):
    store = MemoryStore()
    rows = some_rows(count, num_partitions=num_partitions, ordinals=3)
    record = commit_rows(store, rows, num_partitions=num_partitions, memory_bytes=memory_bytes, batch_rows=batch_rows)
    assert partitions_of(store, record, num_partitions) == expected_partitions(rows)
    assert record.rows == count


def test_the_record_is_written_after_all_files(blocks_apart):
    store = MemoryStore()
    commit_rows(store, some_rows(9, num_partitions=4), num_partitions=4)
    written = [key for verb, key in store.requests if verb in ("put", "create")]
    assert written == ["0.0.attempt-a.data", "0.0.attempt-a.index", "0.0"]


def test_a_later_attempt_adopts_the_first_and_removes_its_own_files():
    store = MemoryStore()
    first = commit_rows(store, some_rows(9, num_partitions=4), num_partitions=4)
    files = dict(store.objects)
    second = commit_rows(store, some_rows(9, num_partitions=4), num_partitions=4, attempt="attempt-b")
    assert second == first
    assert store.objects == files


def test_a_next_generation_counts_after_a_void():
    store = MemoryStore()
    rows = some_rows(9, num_partitions=4)
    commit_rows(store, rows, num_partitions=4)
    MapOutputLog(store).void(0, 0, "damaged")
    second = commit_rows(store, rows, num_partitions=4, generation=1, attempt="attempt-b")
    assert (second.generation, second.attempt) == (1, "attempt-b")
    assert partitions_of(store, second, 4) == expected_partitions(rows)


def open_writer(store, memory_bytes=3000):
    return MapOutputWriter(
        store, map_id=0, generation=0, attempt=new_attempt(), schema=TABLE_SCHEMA, num_partitions=4,
        memory_bytes=memory_bytes,
    )  # fmt: skip


def test_spills_go_to_all_folders_in_turn_and_leave_nothing(tmp_path, monkeypatch):
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", ",".join(map(str, folders)))
    files, opened = [], tempfile.TemporaryFile

    def watched(**options):
        files.append((options["dir"], opened(**options)))
        return files[-1][1]

    monkeypatch.setattr(tempfile, "TemporaryFile", watched)
    with open_writer(MemoryStore()) as writer:
        for start in range(0, 400, 40):
            some_rows(40, num_partitions=4, first_id=start).write(writer)
        assert [folder for folder, _ in files] == folders
        sizes = [file.seek(0, 2) for _, file in files]
        assert max(sizes) < 2 * min(sizes)
        writer.commit()
    assert [list(folder.iterdir()) for folder in folders] == [[], []]


def test_a_local_disk_that_cannot_be_written_commits_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    store = MemoryStore()
    with open_writer(store) as writer:
        tmp_path.rmdir()
        with pytest.raises(TransientError, match="cannot be kept on local disk"):
            some_rows(40, num_partitions=4).write(writer)
    assert store.objects == {}
