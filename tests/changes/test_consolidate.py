import tracemalloc
from collections import Counter
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changes.hash_values import colliding_hashes, hashes_of
from icefloe.changes import consolidate as consolidate_module
from icefloe.changes.consolidate import HashGroups, consolidate, surviving_rows
from icefloe.changes.row_hash.row_hashes import RowHashes

SIDES = st.lists(colliding_hashes, max_size=40)
TOTAL_ROWS = 200_000


def random_hashes(rows, seed=0):
    generator = np.random.default_rng(seed)
    return RowHashes(*(generator.integers(0, 2**64, rows, dtype=np.uint64) for _ in range(2)))


def surplus(side, other):
    """The positions of the first rows of a side that the other cannot cancel."""
    left = Counter(side) - Counter(other)
    positions = []
    for position, value in enumerate(side):
        if left[value] > 0:
            left[value] -= 1
            positions.append(position)
    return positions


@settings(deadline=None)
@given(SIDES, SIDES, st.sampled_from([0, 10_000]), st.sampled_from([2, 10_000]))
def test_the_surviving_rows_are_the_difference_of_the_multisets(removed, added, min_rows, part_rows):
    with (
        patch.object(consolidate_module, "_MIN_ROWS", min_rows),
        patch.object(consolidate_module, "_PART_ROWS", part_rows),
    ):
        survivors = surviving_rows(hashes_of(removed), hashes_of(added))
    assert [side.tolist() for side in survivors] == [surplus(removed, added), surplus(added, removed)]


@pytest.mark.parametrize("differing", [0, 1, 300, TOTAL_ROWS // 3, TOTAL_ROWS])
def test_few_and_many_differing_rows_of_many_are_found(differing):
    generator = np.random.default_rng(differing)
    removed = random_hashes(TOTAL_ROWS, 1)
    changed = np.sort(generator.permutation(TOTAL_ROWS)[:differing])
    added = RowHashes(removed.high.copy(), removed.low.copy())
    fresh = random_hashes(differing, 2)
    added.high[changed], added.low[changed] = fresh.high, fresh.low
    order = generator.permutation(TOTAL_ROWS)
    kept_removed, kept_added = surviving_rows(removed, added.take(order))
    assert np.array_equal(kept_removed, changed)
    assert np.array_equal(kept_added, np.flatnonzero(np.isin(order, changed)))


@pytest.mark.parametrize("differing", [2_000, 1_000_000])
def test_the_memory_needed_is_what_the_docstring_says(differing):
    rows = 1_000_000
    removed, added = random_hashes(rows), random_hashes(rows)
    other = random_hashes(differing, 2)
    added.high[:differing], added.low[:differing] = other.high, other.low
    tracemalloc.start()
    surviving_rows(removed, added)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 2 * rows * 20 + 2**25


ROWS = st.lists(st.tuples(colliding_hashes, st.integers(0, 2), st.integers(-3, 3)), max_size=40)


@settings(deadline=None)
@given(ROWS)
def test_weights_add_up_by_row_and_ordinal(rows):
    values, ordinals, weights = (list(part) for part in zip(*rows, strict=True)) if rows else ([], [], [])
    positions, sums = consolidate(hashes_of(values), np.array(ordinals, np.int32), np.array(weights, np.int64))
    expected = Counter()
    for value, ordinal, weight in rows:
        expected[value, ordinal] += weight
    found = {(values[position], ordinals[position]): total for position, total in zip(positions, sums, strict=True)}
    assert found == {group: total for group, total in expected.items() if total}
    assert positions.tolist() == sorted(rows.index(next(row for row in rows if row[:2] == group)) for group in found)


def test_rows_of_two_ordinals_that_share_the_sort_key_are_distinguished():
    gamma = 0x9E3779B97F4A7C15  # an ordinal's factor in the sorted key
    groups = HashGroups.of(hashes_of([7 + gamma, 7, 7 + gamma, 7]), np.array([0, 1, 0, 1], np.int32))
    assert [part.tolist() for part in np.split(groups.order, groups.starts[1:])] == [[0, 2], [1, 3]]
