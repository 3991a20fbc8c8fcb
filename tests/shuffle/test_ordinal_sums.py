import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from icefloe.shuffle.index_file import OrdinalSums, grouped_hash_sums

WEIGHTS = st.one_of(st.integers(-3, 3), st.integers(-(1 << 63), (1 << 63) - 1))


@given(st.lists(st.lists(st.tuples(st.integers(0, (1 << 128) - 1), WEIGHTS), min_size=1, max_size=5), max_size=6))
def test_hash_sums_are_exact_for_any_weights(groups):
    rows = [row for group in groups for row in group]
    starts = np.cumsum([0, *map(len, groups)])[:-1]
    high, low = grouped_hash_sums(
        np.array([number >> 64 for number, _ in rows], np.uint64),
        np.array([number & (1 << 64) - 1 for number, _ in rows], np.uint64),
        np.array([weight for _, weight in rows], np.int64),
        starts.astype(np.int64),
    )
    found = [int(upper) << 64 | int(lower) for upper, lower in zip(high, low, strict=True)]
    assert found == [sum(number * weight for number, weight in group) % (1 << 128) for group in groups]


def test_sums_of_one_ordinal_add_up_mod_2_to_128():
    one = OrdinalSums(change_ordinal=3, rows=2, signed_count=-2, hash_sum=(1 << 128) - 1)
    assert one + one == OrdinalSums(change_ordinal=3, rows=4, signed_count=-4, hash_sum=(1 << 128) - 2)
