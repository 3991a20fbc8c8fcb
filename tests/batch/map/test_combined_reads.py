"""Rows that are gathered against the same rows, batch by batch."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changes.hash_values import KEY
from icefloe.batch.map.carryover import CombinedReads
from icefloe.batch.rows.weighted_rows import Effect, RowSet, WeightedRows
from icefloe.changes.row_hash.row_hashes import row_hashes_of_batch

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
EFFECTS = st.lists(
    st.builds(
        lambda ordinal, weight, rows, is_all_but: Effect(
            change_ordinal=ordinal,
            weight=weight,
            rows=RowSet(positions=np.array(sorted(rows), np.int64), is_all_but=is_all_but),
        ),
        st.integers(0, 3),
        st.sampled_from([-1, 1, 2]),
        st.sets(st.integers(0, 5)),
        st.booleans(),
    ),
    min_size=1,
    max_size=3,
)
FILES = st.lists(st.tuples(st.lists(st.none() | st.text(max_size=3), max_size=6), EFFECTS), max_size=6)


def batch_of(number: int, names: Sequence[str | None]) -> pa.RecordBatch:
    return pa.record_batch([[number] * len(names), names], schema=SCHEMA)


def counted(parts: Iterable[WeightedRows]) -> Counter[tuple[object, ...]]:
    """The number of each row with its hash, ordinal and weight."""
    found: Counter[tuple[object, ...]] = Counter()
    for part in parts:
        facts = zip(part.row_hashes.high, part.row_hashes.low, part.change_ordinals, part.weights, strict=True)
        for row, fact in zip(part.batch.to_pylist(), facts, strict=True):
            found[(*row.values(), *map(int, fact))] += 1
    return found


@pytest.mark.slow
@settings(max_examples=40)
@given(FILES)
def test_gathered_rows_are_the_rows_of_their_files(files: list[tuple[list[str | None], list[Effect]]]) -> None:
    gathered, alone = CombinedReads(KEY), list[WeightedRows]()
    for number, (names, effects) in enumerate(files):
        batch, positions = batch_of(number, names), np.arange(len(names))
        gathered.add(batch, positions, effects)
        alone.append(WeightedRows.of(batch, row_hashes_of_batch(batch, key=KEY), positions, effects))
    assert not gathered.is_full
    found = list(gathered.taken())
    assert len(found) <= 1
    assert counted(found) == counted(alone)
    assert list(gathered.taken()) == []


def test_rows_wait_until_they_are_many_or_large() -> None:
    many, large = CombinedReads(KEY), CombinedReads(KEY)
    narrow, wide = batch_of(0, ["a"] * 100), batch_of(0, ["a" * 200_000])
    assert CombinedReads.is_small(narrow)
    assert CombinedReads.is_small(wide)
    assert not CombinedReads.is_small(batch_of(0, ["a"] * 5000))
    assert not CombinedReads.is_small(batch_of(0, ["a" * 300_000]))
    counts = []
    for gathered, batch in ((many, narrow), (large, wide)):
        adds = 0
        while not gathered.is_full:
            gathered.add(batch, np.arange(batch.num_rows), [Effect(change_ordinal=0, weight=1)])
            adds += 1
        counts.append(adds)
    assert counts == [41, 6]
