from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.changes.hash_index import HashSlice
from icefloe.changes.row_hash.row_hashes import RowHashes

HIGH = st.lists(st.integers(0, 2**64 - 1), max_size=30)


def hashes_of(high: list[int]) -> RowHashes:
    return RowHashes(np.array(high, np.uint64), np.zeros(len(high), np.uint64))


@given(HIGH, st.integers(0, 40))
def test_slices_hold_every_hash_once_in_ascending_order(high: list[int], at_least: int) -> None:
    slices = HashSlice.slices(at_least)
    assert len(slices) >= max(at_least, 1)
    found = [[high[position] for position in each.positions(hashes_of(high))] for each in slices]
    assert sorted(number for numbers in found for number in numbers) == sorted(high)
    bounds = [(min(numbers), max(numbers)) for numbers in found if numbers]
    assert all(upper < lower for (_, upper), (lower, _) in pairwise(bounds))


@given(HIGH, st.integers(0, 63), st.data())
def test_halves_hold_what_their_slice_holds(high: list[int], bits: int, data: st.DataObject) -> None:
    whole = HashSlice(bits=bits, number=data.draw(st.integers(0, 2**bits - 1)))
    lower, upper = whole.halves()
    both = [*lower.positions(hashes_of(high)), *upper.positions(hashes_of(high))]
    assert sorted(both) == whole.positions(hashes_of(high)).tolist()


def test_one_slice_is_whole_and_64_bits_are_the_end() -> None:
    assert HashSlice.slices(1) == [HashSlice()]
    assert HashSlice().is_whole
    assert not HashSlice(bits=1, number=1).is_whole
    last = HashSlice(bits=64, number=2**64 - 1)
    assert last.positions(hashes_of([2**64 - 1, 5])).tolist() == [0]
    with pytest.raises(ValueError, match="expected a number below"):
        last.halves()
    with pytest.raises(ValueError, match="expected a number below"):
        HashSlice(bits=2, number=4)
