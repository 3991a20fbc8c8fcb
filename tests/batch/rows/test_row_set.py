import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from icefloe.batch.rows.file_effects import RowSet, listed

FILE = 12
SOME = st.sets(st.integers(0, FILE - 1)).map(lambda found: np.array(sorted(found), np.int64))
LISTED = st.one_of(SOME, SOME.map(BitMap64))
SETS = st.builds(
    lambda positions, is_all_but: RowSet(positions=positions, is_all_but=is_all_but), LISTED, st.booleans()
)


def members(rows: RowSet) -> set[int]:
    found = set(listed(rows.positions).tolist())
    return set(range(FILE)) - found if rows.is_all_but else found


@given(SETS, SOME)
def test_row_sets_are_sets(one: RowSet, positions: np.ndarray) -> None:
    assert one.count(FILE) == len(members(one))
    assert positions[one.among(positions)].tolist() == sorted(members(one) & set(positions.tolist()))
    assert one.is_all == (members(one) == set(range(FILE)) and one.is_all_but)


@given(SETS, SOME)
def test_the_remaining_rows_are_numbered_again(rows: RowSet, positions: np.ndarray) -> None:
    seen = rows.seen_from(positions)
    here = seen.among(np.arange(len(positions)))
    assert positions[here].tolist() == sorted(members(rows) & set(positions.tolist()))
