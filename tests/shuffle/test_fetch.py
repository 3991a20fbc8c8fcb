from dataclasses import replace

import pyarrow as pa
import pytest

from icefloe.errors import TransientError
from icefloe.shuffle.blocks import BlockRows
from icefloe.shuffle.coalesce import ReduceRange
from icefloe.shuffle.committed_output import CorruptMapOutputError
from icefloe.shuffle.fetch import fetch_blocks
from shuffle.memory_store import MemoryStore
from shuffle.planned_extents import planned_extents
from shuffle.shuffled_rows import TABLE_SCHEMA, commit_rows, some_rows

SCHEMA = BlockRows.schema(TABLE_SCHEMA)
P = 8


def shuffled(store, *counts, start=0, stop=P):
    """The extents of one range over map outputs of so many rows."""
    records = [
        commit_rows(store, some_rows(rows, num_partitions=P, first_id=100 * i), num_partitions=P, map_id=i)
        for i, rows in enumerate(counts)
    ]
    bounds = [bound for bound in ((0, start), (start, stop), (stop, P)) if bound[0] < bound[1]]
    ranges = [ReduceRange(range_id=number, start=start, stop=stop) for number, (start, stop) in enumerate(bounds)]
    return planned_extents(store, records, ranges, table_schema=TABLE_SCHEMA, num_partitions=P)[start > 0]


def fetch(store, extents, max_fetch_bytes=1 << 20):
    blocks = fetch_blocks(store, extents, SCHEMA, max_fetch_bytes=max_fetch_bytes)
    return [block._replace(batches=iter(list(block.batches))) for block in blocks]


LIMITS = pytest.mark.parametrize("max_fetch_bytes", [1, 1 << 20])


def ids_by_partition(blocks):
    found = {}
    for block in blocks:
        found.setdefault(block.reduce_id, []).extend(pa.Table.from_batches(block.batches)["id"].to_pylist())
    return found


def test_neighbouring_blocks_of_a_map_output_are_one_request(store):
    extents = shuffled(store, 50, 50)
    store.requests.clear()
    assert len(fetch(store, extents)) == 2 * P
    assert [verb for verb, _ in store.requests] == ["get_ranges"] * 2


@pytest.mark.slow
@LIMITS
def test_every_damaged_byte_names_the_map_output_to_void(store, blocks_apart, max_fetch_bytes):
    extents = shuffled(store, 6, 12)
    key = extents.files[1].data_key
    for position in range(len(store.objects[key])):
        store.flip(key, position)
        with pytest.raises(CorruptMapOutputError) as caught:
            fetch(store, extents, max_fetch_bytes)
        assert (caught.value.map_id, caught.value.generation) == (1, 0)
        store.flip(key, position)
    assert len(ids_by_partition(fetch(store, extents, max_fetch_bytes))) == P


@pytest.mark.slow
@LIMITS
def test_every_truncation_names_the_map_output_to_void(store, max_fetch_bytes):
    extents = shuffled(store, 6, 12)
    key = extents.files[1].data_key
    whole = store.objects[key]
    for length in range(len(whole)):
        store.objects[key] = whole[:length]
        with pytest.raises(CorruptMapOutputError, match=f"{length} bytes, expected {len(whole)}"):
            fetch(store, extents, max_fetch_bytes)


@LIMITS
def test_a_data_file_that_is_gone_names_the_map_output_to_void(store, max_fetch_bytes):
    extents = shuffled(store, 6)
    del store.objects[extents.files[0].data_key]
    with pytest.raises(CorruptMapOutputError, match="data is gone"):
        fetch(store, extents, max_fetch_bytes)


@LIMITS
def test_the_block_of_another_partition_is_detected(store, max_fetch_bytes):
    extents = shuffled(store, 50, stop=4)
    blocks = extents.blocks.copy()
    blocks["offset"] += blocks["length"][0]
    with pytest.raises(CorruptMapOutputError, match="does not match its checksum"):
        fetch(store, replace(extents, blocks=blocks), max_fetch_bytes)


@LIMITS
def test_a_block_with_other_rows_than_planned_is_detected(store, max_fetch_bytes):
    extents = shuffled(store, 16)
    blocks = extents.blocks.copy()
    blocks["rows"][:2] += (1, -1)
    with pytest.raises(CorruptMapOutputError, match="has 2 rows, expected 3"):
        fetch(store, replace(extents, blocks=blocks), max_fetch_bytes)


def test_a_store_that_does_not_answer_voids_nothing():
    class Unreachable(MemoryStore):
        def get_ranges(self, *_):
            raise TransientError("the store does not answer")

    store = Unreachable()
    with pytest.raises(TransientError) as caught:
        fetch(store, shuffled(store, 6))
    assert not isinstance(caught.value, CorruptMapOutputError)


def test_a_store_that_answers_short_is_caught_even_where_it_says_nothing(blocks_apart):
    class Short(MemoryStore):
        def get_ranges(self, key, ranges):
            return [data[:-1] for data in super().get_ranges(key, ranges)]

    store = Short()
    with pytest.raises(CorruptMapOutputError, match="answered"):
        fetch(store, shuffled(store, 6))
