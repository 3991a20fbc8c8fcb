"""Small map outputs: blocks and index are one file, and extents hand the blocks on."""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icefloe.shuffle import extents
from icefloe.shuffle.blocks import block_schema
from icefloe.shuffle.coalesce import ReduceRange
from icefloe.shuffle.committed_output import (
    CorruptMapOutputError,
    MapOutputRecord,
    read_committed_output,
    read_committed_outputs,
)
from icefloe.shuffle.extents import CollectedBlocks, RangeExtents
from icefloe.shuffle.extents_file import StoredExtents, store_extents
from icefloe.shuffle.fetch import fetch_blocks
from shuffle.memory_store import MemoryStore
from shuffle.shuffled_rows import TABLE_SCHEMA, commit_rows, some_rows

SCHEMA = block_schema(TABLE_SCHEMA)
P = 8
RANGES = [ReduceRange(range_id=0, start=0, stop=3), ReduceRange(range_id=1, start=3, stop=P)]
KEY = "0.extents"


def committed(store: MemoryStore, *counts: int, first_map: int = 0) -> list[MapOutputRecord]:
    """Map outputs of so many rows."""
    return [
        commit_rows(store, some_rows(rows, num_partitions=P, first_id=100 * map_id), num_partitions=P, map_id=map_id)
        for map_id, rows in enumerate(counts, first_map)
    ]


def write_extents(
    store: MemoryStore, records: Sequence[MapOutputRecord], ranges: Sequence[ReduceRange] = RANGES
) -> StoredExtents:
    """Extents of some map outputs, as `coalesce` writes them."""
    with CollectedBlocks(P) as collected:
        outputs, damaged = read_committed_outputs(
            store, records, schema=SCHEMA, num_partitions=P, most_block_bytes=collected.embeddable_bytes
        )
        assert not damaged
        for output in outputs:
            collected.add(output)
        store_extents(
            store, KEY, collected.extents(ranges), collected.files,
            has_parts=any(each.parts for each in ranges), has_embedded=collected.has_embedded,
        )  # fmt: skip
    return StoredExtents.open(store, KEY)


def ids(store: MemoryStore, extents: RangeExtents, max_fetch_bytes: int = 1 << 20) -> list[int]:
    blocks = fetch_blocks(store, extents, SCHEMA, max_fetch_bytes=max_fetch_bytes)
    return [row for block in blocks for row in pa.Table.from_batches(list(block.batches))["id"].to_pylist()]


def rows_of(counts: Sequence[int], start: int, stop: int) -> list[int]:
    """Ids of the rows in some partitions, in the order in which a range reads them."""
    every = [100 * number + row for number, count in enumerate(counts) for row in range(count)]
    return [row for partition in range(start, stop) for row in every if row * 7 % P == partition]


@pytest.mark.parametrize("in_index", [True, False])
@pytest.mark.parametrize("with_blocks", [True, False])
def test_every_damaged_byte_that_is_read_is_detected(in_index: bool, with_blocks: bool) -> None:
    store = MemoryStore()
    [record] = committed(store, 20)
    assert record.data is not None
    whole = store.objects[record.data.key]

    def read() -> None:
        read_committed_output(store, record, schema=SCHEMA, num_partitions=P, with_blocks=with_blocks)

    for position in range(record.blocks_at) if in_index else range(record.blocks_at, len(whole)):
        store.flip(record.data.key, position)
        if in_index or with_blocks:
            with pytest.raises(CorruptMapOutputError):
                read()
        else:
            read()
        store.objects[record.data.key] = whole[:position]
        if in_index or with_blocks:
            with pytest.raises(CorruptMapOutputError):
                read()
        store.objects[record.data.key] = whole
    read()


@settings(max_examples=40, deadline=None)
@given(
    counts=st.lists(st.integers(0, 60), min_size=1, max_size=5),
    embeddable=st.integers(0, 20_000),
    apart=st.sets(st.integers(0, 4)),
    max_fetch_bytes=st.integers(1, 20_000),
)
def test_a_range_gets_its_rows_whether_its_extents_have_them_or_not(
    counts: list[int], embeddable: int, apart: set[int], max_fetch_bytes: int
) -> None:
    store, records = MemoryStore(), []
    for map_id, count in enumerate(counts):
        with pytest.MonkeyPatch.context() as patched:
            if map_id in apart:
                patched.setattr("icefloe.shuffle.map_output._JOINED_BYTES", -1)
            records += committed(store, count, first_map=map_id)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(extents, "_MOST_EMBEDDED_BYTES", embeddable)
        opened = write_extents(store, records)
    for each in RANGES:
        assert ids(store, opened.of(each.range_id), max_fetch_bytes) == rows_of(counts, each.start, each.stop)


def test_extents_take_no_more_blocks_than_fit_and_the_rest_is_fetched() -> None:
    store = MemoryStore()
    records = committed(store, 30, 40, 50)
    assert records[0].data is not None
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(extents, "_MOST_EMBEDDED_BYTES", records[0].data.size_bytes)
        opened = write_extents(store, records)
    store.requests.clear()
    assert ids(store, opened.of(0)) == rows_of([30, 40, 50], 0, 3)
    assert sorted(store.requests) == [("get_ranges", "1.0.attempt-a.data"), ("get_ranges", "2.0.attempt-a.data")]


def test_the_blocks_of_a_partition_that_several_ranges_read_are_fetched() -> None:
    store = MemoryStore()
    ranges = [
        ReduceRange(range_id=0, start=0, stop=3),
        ReduceRange(range_id=1, start=3, stop=4, parts=(0, 32)),
        ReduceRange(range_id=2, start=3, stop=4, parts=(32, 64)),
        ReduceRange(range_id=3, start=4, stop=P),
    ]
    opened = write_extents(store, committed(store, 30), ranges)
    assert [bool(opened.of(each.range_id).embedded) for each in ranges] == [True, False, False, True]
    assert ids(store, opened.of(1)) == rows_of([30], 3, 4)


def test_a_block_in_the_extents_that_is_not_the_committed_one_names_its_map_output() -> None:
    store = MemoryStore()
    extents = write_extents(store, committed(store, 30, 40)).of(1)
    first = extents.embedded[1]
    damaged = bytearray(first.data)
    damaged[5] ^= 1
    embedded = {**extents.embedded, 1: first._replace(data=memoryview(damaged))}
    with pytest.raises(CorruptMapOutputError) as caught:
        ids(store, replace(extents, embedded=embedded))
    assert caught.value.outputs == ((1, 0),)
