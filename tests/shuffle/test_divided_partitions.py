"""Map outputs with divided partitions, as readers get them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.shuffle.blocks import block_schema
from icefloe.shuffle.coalesce import NUM_PARTS, WHOLE, BatchSizes, BlockNumbers, ReduceRange, hot_partitions, part_ids
from icefloe.shuffle.committed_output import CorruptMapOutputError, MapOutputRecord
from icefloe.shuffle.extents import RangeExtents
from icefloe.shuffle.fetch import fetch_blocks
from icefloe.shuffle.map_output import MapOutputWriter, MapTaskCounts
from shuffle.memory_store import MemoryStore
from shuffle.planned_extents import planned_extents
from shuffle.shuffled_rows import TABLE_SCHEMA, some_rows

P = 4
HOT = 2
COUNT = 3_000


ALWAYS = BatchSizes(num_map_tasks=1_000, target_size_bytes=1, cores=1)
RANGES = [
    ReduceRange(range_id=0, start=0, stop=2),
    ReduceRange(range_id=1, start=HOT, stop=HOT + 1, parts=(0, 20)),
    ReduceRange(range_id=2, start=HOT, stop=HOT + 1, parts=(20, 64)),
    ReduceRange(range_id=3, start=3, stop=4),
]
MEMORY = pytest.mark.parametrize("memory_bytes", [1 << 30, 60_000], ids=["in memory", "spilled"])


def hashes_of(count: int) -> RowHashes:
    return RowHashes(np.random.default_rng(5).integers(0, 1 << 64, count, np.uint64), np.zeros(count, np.uint64))


def committed(store: MemoryStore, *, map_id: int = 0, sizes: BatchSizes | None = ALWAYS, **settings: Any) -> Any:
    """A map output of which most rows are in one reduce partition; returns its record, rows and their parts."""
    rows = some_rows(COUNT, num_partitions=20, ordinals=2)
    reduce_ids = np.where(rows.reduce_ids < P, rows.reduce_ids, HOT).astype(np.int32)
    identities = hashes_of(COUNT)
    with MapOutputWriter(
        store, map_id=map_id, generation=0, attempt="a", schema=TABLE_SCHEMA, num_partitions=P, sizes=sizes,
        **({"memory_bytes": 1 << 30} | settings),
    ) as writer:  # fmt: skip
        for start in range(0, COUNT, 1_500):
            some = slice(start, start + 1_500)
            writer.write(
                rows.batch.slice(start, 1_500),
                reduce_ids=reduce_ids[some],
                change_ordinals=rows.change_ordinals[some],
                weights=rows.weights[some],
                row_hashes=rows.row_hashes[some],
                identity_hashes=identities[some],
            )
        return writer.commit(MapTaskCounts()), reduce_ids, part_ids(identities)


def fetched(store: MemoryStore, extents: RangeExtents) -> dict[tuple[int, int], list[int]]:
    """The ids of each partition and part."""
    order = np.argsort(extents.blocks["reduce_id"], kind="stable")
    parts = extents.blocks["part"][order].tolist()
    blocks = fetch_blocks(store, extents, block_schema(TABLE_SCHEMA), max_fetch_bytes=1 << 20)
    found: dict[tuple[int, int], list[int]] = {}
    for block, part in zip(blocks, parts, strict=True):
        assert not block.is_shared
        ids = pa.Table.from_batches(block.batches)["id"].to_pylist()
        found.setdefault((block.reduce_id, part), []).extend(ids)
    return {place: sorted(ids) for place, ids in found.items()}


def planned(store: MemoryStore, *records: MapOutputRecord) -> list[RangeExtents]:
    return planned_extents(store, records, RANGES, table_schema=TABLE_SCHEMA, num_partitions=P)


@MEMORY
def test_each_part_of_a_hot_partition_is_a_block_and_its_range_has_no_other(memory_bytes: int) -> None:
    store = MemoryStore()
    record, reduce_ids, parts = committed(store, memory_bytes=memory_bytes)
    assert record.divided == (HOT,)
    places = zip(reduce_ids.tolist(), np.where(reduce_ids == HOT, parts, WHOLE).tolist(), strict=True)
    expected: dict[tuple[int, int], list[int]] = {}
    for number, place in enumerate(places):
        expected.setdefault(place, []).append(number)
    found: dict[tuple[int, int], list[int]] = {}
    for extents in planned(store, record):
        assert sum(each.rows for each in extents.ordinals) == extents.most_rows
        of_range = fetched(store, extents)
        assert not found.keys() & of_range.keys()
        found |= of_range
    assert found == expected
    assert len(found) == NUM_PARTS + P - 1


def test_a_partition_that_is_not_hot_is_written_as_ever() -> None:
    plain, store = MemoryStore(), MemoryStore()
    rare = BatchSizes(num_map_tasks=1, target_size_bytes=1 << 40, cores=1)
    committed(plain, sizes=None)
    record, *_ = committed(store, sizes=rare)
    assert record.divided == ()
    assert store.objects == plain.objects


def test_a_range_of_parts_also_reads_outputs_that_were_not_divided_and_leaves_them_out_of_its_sums() -> None:
    store = MemoryStore()
    divided, *_ = committed(store)
    whole, reduce_ids, _ = committed(store, map_id=1, sizes=None)
    extents = planned(store, divided, whole)
    assert sum(each.most_rows for each in extents) == 2 * COUNT + int((reduce_ids == HOT).sum())
    assert sum(ordinal.rows for each in extents for ordinal in each.ordinals) == 2 * COUNT - (reduce_ids == HOT).sum()
    for each in extents[1:3]:
        assert each.blocks["part"].tolist().count(WHOLE) == 1


def test_an_output_whose_record_divides_other_partitions_than_its_files_is_damaged() -> None:
    store = MemoryStore()
    record, *_ = committed(store)
    for divided in ((), (HOT - 1, HOT)):
        with pytest.raises(CorruptMapOutputError):
            planned(store, replace(record, divided=divided))


@pytest.mark.parametrize("divided", [(4,), (-1,), (2, 1), (1, 1)])
def test_partitions_that_cannot_be_divided_are_refused(divided: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="ascend"):
        BlockNumbers(num_partitions=P, divided=divided)


def test_few_rows_are_never_divided_and_of_many_hot_partitions_the_largest_64() -> None:
    assert hot_partitions(ALWAYS, np.array([0, 1_023]), 1 << 30) == ()
    assert hot_partitions(ALWAYS, np.array([0, 1_024]), 1 << 30) == (1,)
    rows = np.arange(10_000, 10_100)
    assert hot_partitions(ALWAYS, rows, 1 << 30) == tuple(range(36, 100))
