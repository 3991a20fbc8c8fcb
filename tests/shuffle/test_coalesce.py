from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.shuffle.coalesce import CoalescePlan, ReduceRange, coalesce
from shuffle.memory_store import MemoryStore

SIZES = st.lists(st.one_of(st.just(0), st.integers(1, 100), st.integers(1, 10_000)), max_size=80)


def ranges_of(sizes, target=100, min_ranges=1, min_range_bytes=1):
    return coalesce(
        np.array(sizes, np.int64), target_size_bytes=target, min_ranges=min_ranges, min_range_bytes=min_range_bytes
    )


@given(SIZES, st.integers(1, 1000), st.integers(1, 30), st.integers(0, 2000))
def test_every_partition_with_rows_is_in_exactly_one_range_and_no_range_has_empty_ends(sizes, target, least, floor):
    ranges = ranges_of(sizes, target, least, floor)
    covered = [position for start, stop in ranges for position in range(start, stop)]
    assert covered == sorted(set(covered))
    assert {position for position, size in enumerate(sizes) if size} <= set(covered)
    for start, stop in ranges:
        assert sizes[start] > 0
        assert sizes[stop - 1] > 0


@given(SIZES, st.integers(1, 1000), st.integers(1, 30))
def test_a_range_exceeds_the_target_by_a_fifth_at_most_unless_it_is_one_partition(sizes, target, least):
    for start, stop in ranges_of(sizes, target, least):
        partitions = [size for size in sizes[start:stop] if size]
        assert sum(partitions) <= 1.2 * target or len(partitions) == 1


@given(SIZES, st.integers(1, 1000), st.integers(1, 30))
def test_there_are_as_many_ranges_as_asked_for_or_one_per_partition(sizes, target, least):
    assert len(ranges_of(sizes, target, least)) >= min(least, sum(size > 0 for size in sizes))


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([0, 0], []),
        ([0, 10, 0], [(1, 2)]),
        ([50, 50, 50, 50], [(0, 2), (2, 4)]),
        ([50, 0, 50, 0, 50], [(0, 3), (4, 5)]),
        ([500, 60, 40], [(0, 1), (1, 3)]),
        ([90, 15], [(0, 2)]),
        ([90, 25], [(0, 1), (1, 2)]),
        ([10, 500, 10], [(0, 1), (1, 2), (2, 3)]),
    ],
)
def test_neighbours_are_merged_to_the_target(sizes, expected):
    assert ranges_of(sizes) == expected


def test_little_work_is_not_spread_over_idle_cores():
    sizes = np.full(64, 10_000)
    assert len(coalesce(sizes, target_size_bytes=64 << 20, min_ranges=8)) == 1
    assert len(coalesce(sizes * 1000, target_size_bytes=64 << 20, min_ranges=30)) >= 30


def plan(*bounds, num_partitions=8):
    ranges = tuple(ReduceRange(range_id=i, start=start, stop=stop) for i, (start, stop) in enumerate(bounds))
    return CoalescePlan(num_partitions=num_partitions, target_size_bytes=100, ranges=ranges)


def test_a_plan_is_created_once_and_a_second_one_gives_way():
    store = MemoryStore()
    first = plan((0, 3), (5, 8)).created(store, "ranges.json")
    assert plan((0, 8)).created(store, "ranges.json") == first == plan((0, 3), (5, 8))


@pytest.mark.parametrize("bounds", [[(0, 3), (2, 8)], [(4, 8), (0, 2)], [(0, 9)]])
def test_ranges_that_overlap_or_leave_the_partitions_are_refused(bounds):
    with pytest.raises(ValueError, match="overlaps"):
        plan(*bounds)


def test_ranges_of_hash_partitions_follow_in_numbers_and_partitions():
    sizes = np.array([80, 0, 80, 0, 90, 70])
    found = CoalescePlan.of(sizes, num_partitions=4, target_size_bytes=100, min_ranges=1)
    assert [(each.range_id, each.start, each.stop) for each in found.all_ranges] == [
        (0, 0, 1), (1, 2, 3), (2, 4, 5), (3, 5, 6)
    ]  # fmt: skip
    assert len(found.ranges) == len(found.hash_ranges) == 2
    assert found.range_ids(RowHashes(np.zeros(2, np.uint64), np.array([4, 6], np.uint64))).tolist() == [0, 1]
    with pytest.raises(ValueError, match="overlaps"):
        replace(found, hash_ranges=(ReduceRange(range_id=2, start=3, stop=5),))
