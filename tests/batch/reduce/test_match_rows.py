"""Equal rows of many identities: they are compared in bounded memory, and the same ones cancel."""

from collections import Counter

import numpy as np
import pytest

from icefloe.batch.reduce import moves
from icefloe.batch.reduce.moves import matched_rows
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.shuffle.blocks import HashRows
from icefloe.shuffle.coalesce import CoalescePlan, ReduceRange

PLAN = CoalescePlan(
    num_partitions=4,
    target_size_bytes=1,
    ranges=(ReduceRange(range_id=0, start=0, stop=2), ReduceRange(range_id=1, start=2, stop=4)),
)


def equal_rows(identities: int) -> HashRows:
    """One row, which every third identity loses and the others get."""
    random = np.random.default_rng(identities)
    hashes = RowHashes(np.zeros(identities, np.uint64), np.full(identities, 7, np.uint64))
    high, low = (random.integers(0, 2**64, identities, np.uint64) for _ in range(2))
    return HashRows(
        row_hashes=hashes,
        identity_hashes=RowHashes(high, low),
        change_ordinals=np.zeros(identities, np.int32),
        weights=np.where(np.arange(identities) % 3, 1, -1),
    )


def found_in(rows: HashRows, memory_bytes: int) -> Counter[tuple[int, ...]]:
    """Counts of the rows that cancel, by range, identity and weight."""
    found: Counter[tuple[int, ...]] = Counter()
    count = len(rows.weights)
    pieces = [rows.take(np.arange(start, min(start + 100, count))) for start in range(0, count, 100)]
    with matched_rows(pieces, rows=count, coalesce_plan=PLAN, memory_bytes=memory_bytes) as spilled:
        for each in PLAN.ranges:
            for some in map(HashRows.of, spilled.batches(each.range_id)):
                columns = (some.identity_hashes.high, some.identity_hashes.low, some.weights)
                found.update((each.range_id, *row) for row in zip(*map(np.ndarray.tolist, columns), strict=True))
    return found


def test_many_identities_of_one_row_are_never_in_memory_together(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, most = equal_rows(3000), 300
    expected = found_in(rows, 1 << 30)
    assert len(expected) == 2000
    loaded: list[int] = []

    def counted(rows: HashRows) -> HashRows:
        loaded.append(len(rows.weights))
        return consolidated(rows)

    consolidated = moves._consolidated
    monkeypatch.setattr(moves, "_consolidated", counted)
    with monkeypatch.context() as patched:
        patched.setattr("icefloe.batch.reduce.moves._BYTES_PER_ROW", 1)
        pieces = (rows.take(np.arange(start, start + 100)) for start in range(0, 3000, 100))
        with matched_rows(pieces, rows=3000, coalesce_plan=PLAN, memory_bytes=most):
            assert len(loaded) > 20
            # Parts by random hashes are not all of one size.
            assert max(loaded) <= 1.5 * most


@pytest.mark.parametrize("memory_bytes", [1, 20_000, 200_000])
def test_the_same_rows_cancel_whatever_the_memory(memory_bytes: int) -> None:
    rows = equal_rows(3000)
    assert found_in(rows, memory_bytes) == found_in(rows, 1 << 30)
    shuffled = rows.take(np.random.default_rng(1).permutation(3000))
    assert found_in(shuffled, memory_bytes) == found_in(rows, 1 << 30)
