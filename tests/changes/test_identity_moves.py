from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from changes.hash_values import colliding_hashes, hashes_of, numbers
from icefloe.changes.identity_moves import SharedWeights, combined_hashes

ROWS = st.lists(
    st.tuples(colliding_hashes, colliding_hashes, st.integers(0, 1), st.sampled_from([-3, -2, -1, 1, 2, 3])),
    max_size=30,
    unique_by=lambda row: row[:3],
)


def oracle(rows):
    """The rest of each (row, identity, ordinal): one by one, the smallest identity of either sign goes first."""
    left = Counter({row[:3]: row[3] for row in rows})
    for row, ordinal in {(row, ordinal) for row, _, ordinal, _ in rows}:
        while True:
            equal = [key for key in left if (key[0], key[2]) == (row, ordinal) and left[key]]
            added, removed = ([key for key in equal if left[key] * sign > 0] for sign in (1, -1))
            if not added or not removed:
                break
            left[min(added)] -= 1
            left[min(removed)] += 1
    return {key: weight for key, weight in left.items() if weight}


def arguments_of(rows):
    hashes, identities, ordinals, weights = zip(*rows, strict=True) if rows else ([], [], [], [])
    return {
        "row_hashes": hashes_of(hashes),
        "identity_hashes": hashes_of(identities),
        "change_ordinals": np.array(ordinals, np.int32),
        "weights": np.array(weights, np.int64),
    }


def cancelled(rows):
    shared, arguments = SharedWeights(), arguments_of(rows)
    shared.add(arguments["row_hashes"], arguments["change_ordinals"], arguments["weights"])
    return shared.cancelled(**arguments)


@settings(max_examples=300, deadline=None)
@given(ROWS, st.randoms())
def test_the_rest_equals_the_rest_of_one_by_one_cancelling(rows, random):
    expected = oracle(rows)
    for _ in range(2):
        positions, changes = cancelled(rows)
        assert len(set(positions.tolist())) == len(positions)
        assert changes.all()
        left = {row[:3]: row[3] for row in rows}
        for position, change in zip(positions.tolist(), changes.tolist(), strict=True):
            left[rows[position][:3]] += change
        assert {key: weight for key, weight in left.items() if weight} == expected
        random.shuffle(rows)


def test_a_combined_hash_distinguishes_row_and_identity():
    pairs = [(row, identity) for row in (0, 1, 1 << 64) for identity in (0, 1, 2, 1 << 64)]
    rows, identities = (hashes_of(values) for values in zip(*pairs, strict=True))
    assert len(set(numbers(combined_hashes(rows, identities)))) == len(pairs)


@settings(max_examples=300, deadline=None)
@given(ROWS, st.lists(st.integers(0, 2**128), max_size=3))
def test_pieces_by_identity_cancel_the_same_rows(rows, bounds):
    """Each piece has the identities between two bounds."""
    ends = [*sorted(bounds), 2**129]
    pieces = [[row for row in rows if start <= row[1] < stop] for start, stop in zip([0, *ends], ends, strict=False)]
    common, found = SharedWeights(), {}
    arguments = [arguments_of(piece) for piece in pieces]
    for each in arguments:
        common.add(each["row_hashes"], each["change_ordinals"], each["weights"])
    for piece, each in zip(pieces, arguments, strict=True):
        positions, changes = common.cancelled(**each)
        found |= {
            piece[position][:3]: change for position, change in zip(positions.tolist(), changes.tolist(), strict=True)
        }
    positions, changes = cancelled(rows)
    assert found == {rows[n][:3]: change for n, change in zip(positions.tolist(), changes.tolist(), strict=True)}
