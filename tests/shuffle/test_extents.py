from dataclasses import replace

import pytest

from icefloe.documents import dump_document, load_document
from icefloe.errors import TerminalError
from icefloe.shuffle.blocks import block_schema
from icefloe.shuffle.committed_output import read_committed_outputs
from icefloe.shuffle.extents import RangeExtents, plan_extents
from icefloe.shuffle.reduce_ranges import ReduceRange
from shuffle.memory_store import MemoryStore
from shuffle.shuffled_rows import TABLE_SCHEMA, commit_rows, some_rows

P = 8
RANGES = [ReduceRange(range_id=0, start=0, stop=3), ReduceRange(range_id=1, start=3, stop=8)]


@pytest.fixture
def outputs():
    store = MemoryStore()
    records = [
        commit_rows(store, some_rows(rows, num_partitions=P, ordinals=2), num_partitions=P, map_id=map_id)
        for map_id, rows in enumerate([40, 0, 1])
    ]
    return read_committed_outputs(store, records, schema=block_schema(TABLE_SCHEMA), num_partitions=P)[0]


def test_extents_cover_exactly_the_bytes_and_rows_of_their_ranges(outputs):
    for planned, of in zip(plan_extents(RANGES, outputs), RANGES, strict=True):
        assert (planned.range_id, planned.start, planned.stop) == (of.range_id, of.start, of.stop)
        for extent in planned.extents:
            output = outputs[extent.map_id]
            assert extent.offset == output.offsets[of.start]
            assert extent.offset + extent.length == output.offsets[of.stop]
            assert sum(extent.block_lengths) == extent.length
            assert list(extent.block_rows) == output.statistics.partition_rows(P)[of.start : of.stop].tolist()


def test_a_map_output_without_rows_in_a_range_has_no_extent_there(outputs):
    first, second = plan_extents(RANGES, outputs)
    assert [extent.map_id for extent in first.extents] == [0, 2]
    assert [extent.map_id for extent in second.extents] == [0]


def test_the_sums_of_a_range_are_those_of_its_statistics(outputs):
    [planned] = plan_extents([ReduceRange(range_id=0, start=0, stop=P)], outputs)
    for sums in planned.ordinals:
        of_maps = [each for output in outputs for each in output.record.ordinals]
        same = [each for each in of_maps if each.change_ordinal == sums.change_ordinal]
        assert sums.rows == sum(each.rows for each in same)
        assert sums.signed_count == sum(each.signed_count for each in same)
        assert sums.hash_sum == sum(each.hash_sum for each in same) % (1 << 128)


def test_rows_that_no_range_covers_are_never_dropped(outputs):
    with pytest.raises(TerminalError, match="cover"):
        plan_extents(RANGES[:1], outputs)


def test_a_document_comes_back(outputs):
    for planned in plan_extents(RANGES, outputs):
        assert load_document(RangeExtents, dump_document(planned), what="extents") == planned


def test_blocks_that_do_not_fill_their_extent_are_refused(outputs):
    [planned, _] = plan_extents(RANGES, outputs)
    with pytest.raises(ValueError, match="do not fill"):
        replace(planned, stop=planned.stop + 1)
    with pytest.raises(ValueError, match="do not fill"):
        replace(planned, extents=(replace(planned.extents[0], length=1),))
