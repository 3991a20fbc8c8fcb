from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.changes import hash_index as hash_membership
from icefloe.changes.hash_index import HashIndex, HashSlice, distinct_hashes
from icefloe.changes.row_hash.row_hashes import RowHashes

FEW = st.sampled_from([0, 1, 2, 1 << 62, 1 << 63, (1 << 64) - 1])
PAIRS = st.lists(st.tuples(FEW, FEW), max_size=30)


def hashes(pairs: list[tuple[int, int]]) -> RowHashes:
    lanes = np.array(pairs, np.uint64).reshape(-1, 2)
    return RowHashes(lanes[:, 0].copy(), lanes[:, 1].copy())


def pairs_of(index: HashIndex, rows: RowHashes) -> list[tuple[int, int]]:
    parts = list(index.matches(rows))
    return sorted((int(row), int(number)) for part in parts for row, number in zip(*part, strict=True))


@given(PAIRS, PAIRS)
def test_every_pair_of_equal_hashes_is_found_once_and_no_other(rows: list[int], members: list[int]) -> None:
    index = HashIndex.of(hashes(members), np.arange(len(members), dtype=np.int32))
    expected = [(row, number) for row, one in enumerate(rows) for number, two in enumerate(members) if one == two]
    assert pairs_of(index, hashes(rows)) == expected


@given(PAIRS)
def test_distinct_hashes_are_each_once(rows: list[tuple[int, int]]) -> None:
    distinct = distinct_hashes(hashes(rows))
    assert sorted(distinct[place] for place in range(len(distinct))) == sorted({high << 64 | low for high, low in rows})


def test_rows_with_many_matches_come_in_bounded_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hash_membership, "_BLOCK_ROWS", 64)
    monkeypatch.setattr(hash_membership, "_BLOCK_PAIRS", 100)
    members, rows = hashes([(3, 3)] * 40 + [(4, 4)] * 150), hashes([(3, 3), (4, 4), (5, 5)] * 50)
    index = HashIndex.of(members, np.arange(190, dtype=np.int32))
    assert max(len(part) for part, _ in index.matches(rows)) <= 100 + 150
    assert len(pairs_of(index, rows)) == len(set(pairs_of(index, rows))) == 50 * 190


def test_each_hash_needs_a_number() -> None:
    with pytest.raises(ValueError, match="one number per hash was expected, found 2 for 1"):
        HashIndex.of(hashes([(1, 1)]), np.zeros(2, np.int32))


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


def test_one_slice_is_whole_and_64_bits_are_the_end() -> None:
    assert HashSlice.slices(1) == [HashSlice()]
    assert HashSlice().is_whole
    assert not HashSlice(bits=1, number=1).is_whole
    last = HashSlice(bits=64, number=2**64 - 1)
    assert last.positions(hashes_of([2**64 - 1, 5])).tolist() == [0]
