import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.shuffle.coalesce import CoalescePlan, ReduceRange, coalesce
from shuffle.memory_store import MemoryStore

SIZES = st.lists(st.one_of(st.just(0), st.integers(1, 100), st.integers(1, 10_000)), max_size=80)


def ranges_of(sizes, target=100, min_ranges=1, min_range_bytes=1):
    ranges = coalesce(
        np.array(sizes, np.int64), target_size_bytes=target, min_ranges=min_ranges, min_range_bytes=min_range_bytes
    )
    return [(each.start, each.stop) for each in ranges]


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


@given(
    SIZES,
    st.dictionaries(st.integers(0, 79), st.lists(st.integers(0, 300), min_size=64, max_size=64), max_size=3),
    st.integers(1, 3_000),
    st.integers(1, 30),
)
def test_a_divided_partition_is_one_range_with_others_or_several_that_have_each_part_once(
    sizes, divided, target, least
):
    part_bytes = {number: np.array(parts) for number, parts in divided.items() if number < len(sizes)}
    totals = np.array(sizes, np.int64)
    for number, parts in part_bytes.items():
        totals[number] += parts.sum()
    ranges = coalesce(totals, target_size_bytes=target, min_ranges=least, min_range_bytes=1, part_bytes=part_bytes)
    # The plan refuses ranges that overlap or leave out parts.
    CoalescePlan.of(ranges, num_partitions=max(1, len(sizes)), target_size_bytes=target)
    covered = {number for each in ranges for number in range(each.start, each.stop)}
    assert set(np.flatnonzero(totals).tolist()) <= covered
    for each in ranges:
        if each.parts is None:
            continue
        first, stop = each.parts
        of_parts, shared = part_bytes[each.start], sizes[each.start]
        own = int(of_parts[first:stop].sum())
        assert own <= 1.2 * max(target - shared, shared, 1) or np.count_nonzero(of_parts[first:stop]) == 1


def test_a_hot_partition_is_cut_into_even_ranges_of_its_parts():
    sizes, parts = np.full(64, 30), np.full(64, 110)
    sizes[9] = parts.sum()
    ranges = coalesce(sizes, target_size_bytes=1_000, min_ranges=2, part_bytes={9: parts})
    hot = [each.parts[1] - each.parts[0] for each in ranges if each.parts]
    assert {each.start for each in ranges if each.parts} == {9}
    assert len(hot) >= 7
    assert max(hot) <= 2 * min(hot)


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


def of_parts(*bounds):
    ranges = tuple(
        ReduceRange(range_id=i, start=start, stop=start + 1, parts=parts) for i, (start, parts) in enumerate(bounds)
    )
    return CoalescePlan.of(ranges, num_partitions=8, target_size_bytes=100)


@pytest.mark.parametrize(
    "bounds",
    [
        [(3, (0, 20))],
        [(3, (1, 64))],
        [(3, (0, 20)), (3, (21, 64))],
        [(3, (0, 20)), (4, (20, 64))],
        [(3, (0, 20)), (3, None)],
        [(3, (0, 64)), (3, (0, 64))],
        [(3, None), (3, (0, 64))],
    ],
)
def test_parts_that_are_left_out_or_come_twice_are_refused(bounds):
    with pytest.raises(ValueError, match=r"part|overlaps"):
        of_parts(*bounds)
