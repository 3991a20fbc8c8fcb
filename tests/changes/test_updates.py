from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from changes.hash_values import KEY, colliding_hashes, hashes_of
from changes.reference_row_hash import row_hash
from icefloe.changes.columns import ChangeType
from icefloe.changes.consolidate import consolidate
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.changes.updates import pair_updates

KINDS = [pa.binary(), pa.int64(), pa.float64()]
ROW = st.tuples(
    st.none() | st.sampled_from([b"", b"\0", b"\xff" * 9]),
    st.none() | st.integers(0, 1),
    st.none() | st.sampled_from([0.0, -0.0, float("nan"), -float("nan"), 1.0]),
)
CHANGES = st.lists(st.tuples(ROW, st.integers(0, 2), st.integers(-2, 2)), max_size=30)


def canonical(row):
    return *row[:-1], "NaN" if row[-1] != row[-1] else row[-1] and row[-1] + 0.0


def oracle(changes, identity):
    """The changes to deliver, in order: consolidated, paired by ``identity(row)``, None for no pairing."""
    net, rows, groups = Counter(), {}, defaultdict(lambda: ([], []))
    for row, ordinal, weight in changes:
        net[canonical(row), ordinal] += weight
        rows[canonical(row)] = row
    for (name, ordinal), weight in net.items():
        hashed = row_hash(KINDS, rows[name], RowHashes.PUBLIC_KEY if identity else KEY)
        place = (identity(rows[name]), ordinal) if identity else (hashed, ordinal)
        groups[place][weight > 0].extend([(hashed, name)] * abs(weight))
    for (_, ordinal), sides in sorted(groups.items()):
        deletes, inserts = map(sorted, sides)
        pairs = min(len(deletes), len(inserts)) if identity else 0
        alone = len(deletes) - pairs
        yield from (("DELETE", ordinal, name) for _, name in deletes[:alone])
        for (_, before), (_, after) in zip(deletes[alone:], inserts[:pairs], strict=True):
            yield from [("UPDATE_BEFORE", ordinal, before), ("UPDATE_AFTER", ordinal, after)]
        yield from (("INSERT", ordinal, name) for _, name in inserts[pairs:])


def delivered(changes, identity_columns):
    rows: Any
    ordinals: Any
    weights: Any
    rows, ordinals, weights = zip(*changes, strict=True) if changes else ([], [], [])
    columns = [pa.array([row[index] for row in rows], kind) for index, kind in enumerate(KINDS)]
    hashes, ordinals = RowHashes.of(columns, key=KEY), np.array(ordinals, np.int32)
    kept, weights = consolidate(hashes, ordinals, np.array(weights, np.int64))
    identities = (
        RowHashes.of([columns[index] for index in identity_columns], key=KEY).take(kept) if identity_columns else None
    )
    taken, types = pair_updates(
        row_hashes=hashes.take(kept),
        identity_hashes=identities,
        change_ordinals=ordinals[kept],
        weights=weights,
        order_of=RowHashes.of(columns, key=RowHashes.PUBLIC_KEY).take(kept).take,
    )
    for place, code in zip(kept[taken], types, strict=True):
        yield ChangeType(code).name, ordinals[place], canonical(rows[place])


@settings(max_examples=300, deadline=None)
@given(CHANGES, st.randoms())
def test_consolidation_and_pairing_agree_with_ten_lines_of_python(changes, random):
    expected = list(oracle(changes, lambda row: row_hash(KINDS[:2], row[:2], KEY)))
    assert list(delivered(changes, [0, 1])) == expected
    random.shuffle(changes)
    assert list(delivered(changes, [0, 1])) == expected


@settings(deadline=None)
@given(CHANGES, st.randoms())
def test_rows_without_identity_are_inserts_and_deletes_in_the_order_of_their_hashes(changes, random):
    expected = list(oracle(changes, None))
    assert list(delivered(changes, [])) == expected
    assert not {kind for kind, _, _ in expected} & {"UPDATE_BEFORE", "UPDATE_AFTER"}
    random.shuffle(changes)
    assert list(delivered(changes, [])) == expected


HASHED = st.lists(
    st.tuples(colliding_hashes, colliding_hashes, st.integers(0, 2), st.integers(-2, 2)),
    max_size=30,
    unique_by=lambda row: (row[1], row[2]),
)


@settings(deadline=None)
@given(HASHED)
def test_hashes_that_share_a_lane_are_not_taken_for_each_other(rows):
    identities, hashes, ordinals, weights = zip(*rows, strict=True) if rows else ([], [], [], [])
    taken, types = pair_updates(
        row_hashes=hashes_of(hashes),
        identity_hashes=hashes_of(identities),
        change_ordinals=np.array(ordinals, np.int32),
        weights=np.array(weights, np.int64),
        order_of=hashes_of(hashes).take,
    )
    groups = defaultdict(lambda: ([], []))
    for place, (identity, hashed, ordinal, weight) in enumerate(rows):
        groups[identity, ordinal][weight > 0].extend([(hashed, place)] * abs(weight))
    expected = []
    for deletes, inserts in (tuple(map(sorted, groups[place])) for place in sorted(groups)):
        pairs = min(len(deletes), len(inserts))
        alone = len(deletes) - pairs
        expected += [(place, ChangeType.DELETE) for _, place in deletes[:alone]]
        for (_, before), (_, after) in zip(deletes[alone:], inserts, strict=False):
            expected += [(before, ChangeType.UPDATE_BEFORE), (after, ChangeType.UPDATE_AFTER)]
        expected += [(place, ChangeType.INSERT) for _, place in inserts[pairs:]]
    assert list(zip(taken.tolist(), types.tolist(), strict=True)) == expected
    assert types.dtype == np.uint8
