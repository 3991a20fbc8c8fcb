import pytest

from icefloe.documents import dump_document, load_document
from icefloe.errors import TerminalError
from icefloe.shuffle.coalesce import CoalescePlan, ReduceRange, create_coalesce_plan
from shuffle.memory_store import MemoryStore


def plan(*bounds, num_partitions=8):
    ranges = tuple(ReduceRange(range_id=i, start=start, stop=stop) for i, (start, stop) in enumerate(bounds))
    return CoalescePlan(num_partitions=num_partitions, target_size_bytes=100, ranges=ranges)


def test_a_plan_is_created_once_and_a_second_one_gives_way():
    store = MemoryStore()
    first = create_coalesce_plan(store, "ranges.json", plan((0, 3), (5, 8)))
    assert create_coalesce_plan(store, "ranges.json", plan((0, 8))) == first == plan((0, 3), (5, 8))


@pytest.mark.parametrize("bounds", [[(0, 3), (2, 8)], [(4, 8), (0, 2)], [(0, 9)]])
def test_ranges_that_overlap_or_leave_the_partitions_are_refused(bounds):
    with pytest.raises(ValueError, match="overlaps"):
        plan(*bounds)


@pytest.mark.parametrize(("start", "stop"), [(3, 3), (4, 3), (-1, 2)])
def test_an_empty_range_is_refused(start, stop):
    with pytest.raises(ValueError, match="start < stop"):
        ReduceRange(range_id=0, start=start, stop=stop)


def of_parts(*bounds):
    ranges = tuple(
        ReduceRange(range_id=i, start=start, stop=start + 1, parts=parts) for i, (start, parts) in enumerate(bounds)
    )
    return CoalescePlan.of(ranges, num_partitions=8, target_size_bytes=100)


def test_a_plan_with_parts_is_read():
    planned = of_parts((2, None), (3, (0, 20)), (3, (20, 64)), (5, None))
    assert load_document(CoalescePlan, dump_document(planned), what="ranges.json") == planned


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


@pytest.mark.parametrize(("stop", "parts"), [(5, (0, 64)), (4, (5, 5)), (4, (0, 65)), (4, (-1, 3))])
def test_only_one_partition_has_parts_and_never_more_than_64(stop, parts):
    with pytest.raises(ValueError, match="64 at most"):
        ReduceRange(range_id=0, start=3, stop=stop, parts=parts)


def test_a_damaged_plan_is_one_clear_error():
    data = dump_document(plan((0, 3))).replace(b'"stop": 3', b'"stop": 30')
    with pytest.raises(TerminalError, match="CoalescePlan"):
        load_document(CoalescePlan, data, what="ranges.json")
