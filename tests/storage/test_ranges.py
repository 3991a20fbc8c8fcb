from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.storage.values import coalesce_ranges, cut_ranges

RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda pair: (pair[0], pair[0] + pair[1])))


@given(ranges=RANGES, gap_bytes=st.integers(0, 10))
def test_the_fetched_bytes_answer_every_range_exactly(ranges, gap_bytes):
    data = bytes(range(100))
    fetched = coalesce_ranges(ranges, gap_bytes=gap_bytes)
    parts = [memoryview(data)[start:stop] for start, stop in fetched]
    assert cut_ranges(fetched, parts, ranges) == [data[start:stop] for start, stop in ranges]


@given(ranges=RANGES, gap_bytes=st.integers(0, 10))
def test_fetched_pieces_lie_apart_and_waste_no_more_than_the_gaps(ranges, gap_bytes):
    fetched = coalesce_ranges(ranges, gap_bytes=gap_bytes)
    wanted = {byte for start, stop in ranges for byte in range(start, stop)}
    assert all(after - before > gap_bytes for (_, before), (after, _) in pairwise(fetched))
    for start, stop in fetched:
        assert {start, stop - 1} <= wanted
        idle = 0
        for byte in range(start, stop):
            idle = 0 if byte in wanted else idle + 1
            assert idle <= gap_bytes


def test_a_range_that_ends_before_it_begins_is_refused():
    with pytest.raises(ValueError, match=r"found \(5, 3\)"):
        coalesce_ranges([(0, 1), (5, 3)], gap_bytes=0)
