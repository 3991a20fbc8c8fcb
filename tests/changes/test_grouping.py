import numpy as np

from changes.hash_values import hashes_of
from icefloe.changes.consolidate import HashGroups

GAMMA = 0x9E3779B97F4A7C15
"""An ordinal's factor in the sorted key."""


def groups_of(values, ordinals=None):
    groups = HashGroups.of(hashes_of(values), None if ordinals is None else np.array(ordinals, np.int32))
    return {tuple(part.tolist()) for part in np.split(groups.order, groups.starts[1:]) if len(part)}


def test_equal_rows_come_together_in_the_order_of_their_positions():
    assert groups_of([7, 8, 7, 7, 8]) == {(0, 2, 3), (1, 4)}
    assert groups_of([7, 8, 7, 7, 8], [0, 0, 1, 0, 0]) == {(0, 3), (1, 4), (2,)}


def test_rows_that_share_the_sorted_lane_are_distinguished():
    assert groups_of([7, 7 + (1 << 64), 7]) == {(0, 2), (1,)}
    assert groups_of([7, 7 + (1 << 64), 7], [0, 0, 1]) == {(0,), (1,), (2,)}


def test_rows_of_two_ordinals_that_share_the_sort_key_are_distinguished():
    assert groups_of([7 + GAMMA, 7, 7 + GAMMA, 7], [0, 1, 0, 1]) == {(0, 2), (1, 3)}
