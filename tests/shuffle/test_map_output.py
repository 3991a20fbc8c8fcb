import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changes.hash_values import KEY
from icefloe.changes.row_hash.row_hashes import row_hashes
from icefloe.errors import TransientError
from icefloe.shuffle.blocks import block_schema
from icefloe.shuffle.coalesce import ReduceRange
from icefloe.shuffle.committed_output import read_committed_output
from icefloe.shuffle.fetch import fetch_blocks
from icefloe.shuffle.map_output import MapOutputWriter, MapTaskCounts, new_attempt
from icefloe.shuffle.map_output_log import CorruptMapOutputError, MapOutputLog
from icefloe.shuffle.partitions import reduce_ids
from icefloe.storage.location import open_store
from shuffle.memory_store import MemoryStore
from shuffle.planned_extents import planned_extents
from shuffle.shuffled_rows import TABLE_SCHEMA, commit_rows, some_rows, write_map_output

SCHEMA = block_schema(TABLE_SCHEMA)


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


@pytest.mark.parametrize("memory_bytes", [3000, 1 << 30])
def test_a_store_on_disk_takes_and_gives_the_same_rows(tmp_path, memory_bytes):
    store = open_store(f"file://{tmp_path}/shuffle")
    rows = some_rows(100, num_partitions=8)
    record = commit_rows(store, rows, num_partitions=8, memory_bytes=memory_bytes, batch_rows=9)
    assert MapOutputLog(store).records([0]) == [record]
    assert partitions_of(store, record, 8) == expected_partitions(rows)
    path = tmp_path / "shuffle" / record.data.key
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptMapOutputError):
        partitions_of(store, record, 8)


def test_sums_of_the_record_are_those_of_the_rows():
    rows = some_rows(100, num_partitions=8, ordinals=2)
    record = commit_rows(MemoryStore(), rows, num_partitions=8, memory_bytes=3000, batch_rows=7)
    for ordinal, sums in enumerate(record.ordinals):
        picked = np.flatnonzero(rows.change_ordinals == ordinal)
        assert sums.change_ordinal == ordinal
        assert sums.rows == len(picked)
        assert sums.signed_count == rows.weights[picked].sum()
        assert sums.hash_sum == rows.row_hashes.take(picked).signed_sum(rows.weights[picked])


def test_no_rows_are_a_whole_output_too():
    store = MemoryStore()
    record = commit_rows(store, some_rows(0, num_partitions=4), num_partitions=4)
    assert (record.rows, record.ordinals, record.largest_block_bytes) == (0, (), 0)
    assert read_committed_output(store, record, schema=SCHEMA, num_partitions=4).offsets.tolist() == [0] * 5


def test_the_record_is_written_after_its_one_file():
    store = MemoryStore()
    commit_rows(store, some_rows(9, num_partitions=4), num_partitions=4)
    assert [key for verb, key in store.requests if verb in ("put", "create")] == ["0.0.attempt-a.data", "0.0"]


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


def open_writer(store, tmp_path, **changed):
    settings: dict[str, Any] = {"memory_bytes": 3000, "spill_folders": [tmp_path]} | changed
    return MapOutputWriter(
        store, map_id=0, generation=0, attempt=new_attempt(), schema=TABLE_SCHEMA, num_partitions=4, **settings
    )


def write(writer, rows):
    writer.write(
        rows.batch,
        reduce_ids=rows.reduce_ids,
        change_ordinals=rows.change_ordinals,
        weights=rows.weights,
        row_hashes=rows.row_hashes,
    )


@pytest.mark.parametrize("fails", [False, True])
def test_spills_go_to_all_folders_in_turn_and_are_removed(tmp_path, fails):
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    try:
        with open_writer(MemoryStore(), tmp_path, spill_folders=folders) as writer:
            for start in range(0, 400, 40):
                write(writer, some_rows(40, num_partitions=4, first_id=start))
            sizes = [file.stat().st_size for folder in folders for file in folder.glob("*/*.blocks")]
            assert len(sizes) == 2
            assert max(sizes) < 2 * min(sizes)
            if fails:
                raise RuntimeError("the task died")
            writer.commit(MapTaskCounts())
    except RuntimeError:
        assert fails
    assert [list(folder.iterdir()) for folder in folders] == [[], []]


SPILLS = """
import resource, sys
from pathlib import Path
from shuffle.test_map_output import MapTaskCounts, MemoryStore, expected_partitions, open_writer, partitions_of, write
from shuffle.shuffled_rows import some_rows

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
store = MemoryStore()
with open_writer(store, Path(sys.argv[1]), memory_bytes=1) as writer:
    for start in range(300):
        write(writer, some_rows(5, num_partitions=4, first_id=5 * start))
    record = writer.commit(MapTaskCounts())
    assert len(writer._runs) == 300
print(sum(map(len, partitions_of(store, record, 4).values())))
"""


@pytest.mark.slow
def test_hundreds_of_spills_need_no_more_open_files_than_a_process_may_have(tmp_path):
    paths = [str(Path(__file__).parents[1]), *sys.path]
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = {paths!r}\n{SPILLS}", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.stdout, ended.stderr[-800:]) == ("1500\n", "")


def test_a_local_disk_that_cannot_be_written_commits_nothing(tmp_path):
    store = MemoryStore()
    with open_writer(store, tmp_path, spill_folders=[tmp_path / "gone"]) as writer:
        write(writer, some_rows(40, num_partitions=4))
        with pytest.raises(TransientError, match="no folder for temporary files can be made"):
            write(writer, some_rows(40, num_partitions=4))
    assert store.objects == {}


def test_arguments_of_different_lengths_are_refused(tmp_path):
    rows = some_rows(4, num_partitions=4)
    with open_writer(MemoryStore(), tmp_path) as writer, pytest.raises(ValueError, match="differ in number"):
        writer.write(
            rows.batch,
            reduce_ids=rows.reduce_ids[1:],
            change_ordinals=rows.change_ordinals,
            weights=rows.weights,
            row_hashes=rows.row_hashes,
        )


def test_attempts_are_never_named_alike():
    assert new_attempt() != new_attempt()


@pytest.mark.parametrize(("count", "most"), [(200, 1.5), (2000, 0.8)])
def test_few_rows_over_many_partitions_take_few_bytes(count, most):
    """The goal is three times the rows' Arrow size; 19 columns like those of a table of flights."""
    dice = np.random.default_rng(7)
    numbers = {f"number_{i}": dice.integers(0, 10 ** (i % 5 + 1), count).astype(np.float64) for i in range(15)}
    texts = {f"text_{i}": [f"N{code}"[: 3 + i] for code in dice.integers(10_000, 99_999, count)] for i in range(4)}
    batch = pa.RecordBatch.from_pydict(numbers | texts)
    hashes = row_hashes(batch.columns, key=KEY)
    record = write_map_output(
        MemoryStore(),
        map_id=0,
        generation=0,
        attempt="a",
        schema=batch.schema,
        batches=[batch],
        reduce_ids=reduce_ids(hashes, 64),
        change_ordinals=np.zeros(count, np.int32),
        weights=np.where(np.arange(count) % 2, 1, -1).astype(np.int64),
        row_hashes=hashes,
        num_partitions=64,
        memory_bytes=1 << 30,
        counts=MapTaskCounts(),
    )
    assert record.data.size_bytes < most * batch.nbytes
