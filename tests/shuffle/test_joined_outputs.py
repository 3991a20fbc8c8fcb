"""Small map outputs: index and blocks are one file."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icefloe.shuffle.blocks import BlockRows
from icefloe.shuffle.coalesce import ReduceRange
from icefloe.shuffle.fetch import fetch_blocks
from shuffle.memory_store import MemoryStore
from shuffle.planned_extents import planned_extents
from shuffle.shuffled_rows import TABLE_SCHEMA, commit_rows, some_rows

SCHEMA = BlockRows.schema(TABLE_SCHEMA)
P = 8
RANGES = [ReduceRange(range_id=0, start=0, stop=3), ReduceRange(range_id=1, start=3, stop=P)]


@settings(max_examples=40, deadline=None)
@given(
    counts=st.lists(st.integers(0, 60), min_size=1, max_size=5),
    apart=st.sets(st.integers(0, 4)),
    max_fetch_bytes=st.integers(1, 20_000),
)
def test_a_range_gets_its_rows_wherever_the_index_is(counts: list[int], apart: set[int], max_fetch_bytes: int) -> None:
    store, records = MemoryStore(), []
    for map_id, count in enumerate(counts):
        rows = some_rows(count, num_partitions=P, first_id=100 * map_id)
        with pytest.MonkeyPatch.context() as patched:
            if map_id in apart:
                patched.setattr("icefloe.shuffle.map_output._JOINED_BYTES", -1)
            records.append(commit_rows(store, rows, num_partitions=P, map_id=map_id))
    every = [100 * number + row for number, count in enumerate(counts) for row in range(count)]
    for extents in planned_extents(store, records, RANGES, table_schema=TABLE_SCHEMA, num_partitions=P):
        blocks = fetch_blocks(store, extents, SCHEMA, max_fetch_bytes=max_fetch_bytes)
        found = [row for block in blocks for row in pa.Table.from_batches(list(block.batches))["id"].to_pylist()]
        assert found == [p_row for p in range(extents.start, extents.stop) for p_row in every if p_row * 7 % P == p]
