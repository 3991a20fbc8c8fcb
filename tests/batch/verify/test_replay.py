import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.batch.verify import table_state
from icefloe.batch.verify.table_state import Replay
from icefloe.changes.hash_index import HashSlice
from icefloe.changes.row_hash.row_hashes import RowHashes

ROWS = st.lists(
    st.tuples(st.integers(0, 2**64 - 1).map(lambda high: high >> 58 << 58), st.integers(-2, 2)), max_size=40
)
Rows = list[tuple[int, int]]


def add(to: Replay, rows: Rows) -> None:
    high = np.array([high for high, _ in rows], np.uint64)
    to.add(RowHashes(high, np.zeros(len(rows), np.uint64)), np.array([weight for _, weight in rows], np.int64))


def left_over(rows: Rows) -> int:
    sums: dict[int, int] = {}
    for high, weight in rows:
        sums[high] = sums.get(high, 0) + weight
    return sum(map(abs, sums.values()))


@given(ROWS, st.integers(1, 8))
def test_rows_that_do_not_cancel_are_counted_in_any_number_of_slices(rows: Rows, slices: int) -> None:
    differing = 0
    for part in HashSlice.slices(slices):
        here = Replay(part)
        add(here, rows[:20])
        add(here, rows[20:])
        differing += here.differing_rows()
    assert differing == left_over(rows)


def test_rows_are_added_up_on_the_way_so_that_memory_holds_what_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_state, "_PENDING_ROWS", 4)
    kept = Replay()
    for _ in range(50):
        add(kept, [(1 << 63, 1), (5 << 59, 1)])
        add(kept, [(1 << 63, -1)])
    assert kept.differing_rows() == 50
    assert len(kept._hashes) == 1
