from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from changes.hash_values import KEY
from changes.net_states import net_of_states
from changes.reference_row_hash import row_hash
from icefloe.changes.columns import ChangeType
from icefloe.changes.consolidate import consolidate
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.changes.updates import net_changes, pair_updates

KINDS = [pa.binary(), pa.float64()]
ID = st.none() | st.sampled_from([b"", b"\0"])
VALUE = st.none() | st.sampled_from(["NaN", 0.0, 1.0])
ROW = st.tuples(ID, VALUE)
STEP = st.dictionaries(ROW, st.integers(0, 2), max_size=3)
"""How often rows stand in the table from this step on."""
HISTORY = st.lists(STEP, min_size=1, max_size=6)


def states_of(history):
    """The states around the steps of a history; its first entry makes the start state."""
    states = [Counter()]
    for step in history:
        states.append(+Counter({**states[-1], **step}))
    return states[1:]


def handed_on(states, random):
    """Rows, ordinals and weights as map tasks may hand them on: not consolidated, in any order."""
    rows = []
    for ordinal, (before, after) in enumerate(pairwise(states)):
        for row in before | after:
            together = random.randrange(3)
            rows += [(row, ordinal, -1)] * (before[row] + together) + [(row, ordinal, 1)] * (after[row] + together)
    random.shuffle(rows)
    return rows


def delivered(changes, *, has_identity):
    rows: Any
    ordinals: Any
    weights: Any
    rows, ordinals, weights = zip(*changes, strict=True) if changes else ([], [], [])
    columns = [pa.array([row[0] for row in rows], KINDS[0]), pa.array([number(row[1]) for row in rows], KINDS[1])]
    hashes, identities = RowHashes.of(columns, key=KEY), RowHashes.of(columns[:1], key=KEY) if has_identity else None
    ordinals = np.array(ordinals, np.int32)
    kept, weights = consolidate(hashes, ordinals, np.array(weights, np.int64))
    left, weights, ordinals = net_changes(
        row_hashes=hashes.take(kept),
        identity_hashes=identities.take(kept) if has_identity else None,
        change_ordinals=ordinals[kept],
        weights=weights,
    )
    kept = kept[left]
    taken, types = pair_updates(
        row_hashes=hashes.take(kept),
        identity_hashes=identities.take(kept) if has_identity else None,
        change_ordinals=ordinals,
        weights=weights,
        order_of=RowHashes.of(columns, key=RowHashes.PUBLIC_KEY).take(kept).take,
    )
    return [
        (ChangeType(code).name, ordinals[place], rows[kept[place]]) for place, code in zip(taken, types, strict=True)
    ]


def expected(states, *, has_identity):
    """The same from the states, in the order of delivery."""
    changes = net_of_states(states, (lambda row: row[0]) if has_identity else (lambda row: row))
    for change in sorted(changes, key=lambda change: hash_of(change.identity, has_identity)):
        deletes, inserts = (
            sorted(side.elements(), key=lambda row: hash_of(row, key=RowHashes.PUBLIC_KEY if has_identity else KEY))
            for side in (change.deletes, change.inserts)
        )
        pairs = change.pairs if has_identity else 0
        alone = len(deletes) - pairs
        yield from (("DELETE", change.change_ordinal, row) for row in deletes[:alone])
        for images in zip(deletes[alone:], inserts[:pairs], strict=True):
            yield from zip(("UPDATE_BEFORE", "UPDATE_AFTER"), [change.change_ordinal] * 2, images, strict=True)
        yield from (("INSERT", change.change_ordinal, row) for row in inserts[pairs:])


def hash_of(value, is_identity=False, key=KEY):
    return row_hash(KINDS[:1], [value], key) if is_identity else row_hash(KINDS, [value[0], number(value[1])], key)


def number(value):
    return float("nan") if value == "NaN" else value


@settings(max_examples=300, deadline=None)
@given(HISTORY, st.randoms(use_true_random=False), st.booleans())
def test_net_changes_are_the_last_state_against_the_first(history, random, has_identity):
    states = states_of(history)
    found = delivered(handed_on(states, random), has_identity=has_identity)
    assert found == list(expected(states, has_identity=has_identity))
