"""One identity that does not fit into memory, against all of its rows at once."""

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from changes.hash_values import KEY
from icefloe.batch.reduce import group_changes
from icefloe.batch.reduce.group_changes import TornIdentity
from icefloe.batch.staged_changes import StagedChanges
from icefloe.changes.row_hash.row_hashes import RowHashes, row_hashes_of_batch
from icefloe.changes.updates import pair_updates

SCHEMA = pa.schema([pa.field("number", pa.int64())])
STEPS = 3


class ToldChanges:
    """Stands in for a staged."""

    def batches(
        self, rows: pa.RecordBatch, hashes: RowHashes, picks: NDArray[Any], kinds: NDArray[Any], ordinals: NDArray[Any]
    ) -> Iterator[list[tuple[int, int, int]]]:
        assert hashes.equals(row_hashes_of_batch(rows, key=KEY))
        numbers = rows.column(0).to_numpy()[picks]
        yield [*zip(numbers.tolist(), kinds.tolist(), ordinals[picks].tolist(), strict=True)]


WEIGHTS = st.dictionaries(
    st.tuples(st.integers(0, 30), st.integers(0, STEPS - 1)), st.integers(-4, 4).filter(bool), max_size=40
)


@settings(max_examples=100, deadline=None)
@given(WEIGHTS, st.integers(1, 5), st.sampled_from([1, 3, 1 << 16]), st.sampled_from([1, 1 << 20]))
def test_its_changes_are_those_of_all_rows_at_once(
    weights: dict[tuple[int, int], int], pieces: int, at_once: int, memory_bytes: int
) -> None:
    rows = pa.record_batch([pa.array([number for number, _ in weights], pa.int64())], schema=SCHEMA)
    public = row_hashes_of_batch(rows, key=RowHashes.PUBLIC_KEY)
    hashes, values = row_hashes_of_batch(rows, key=KEY), np.array([*weights.values()], np.int64)
    ordinals = np.array([ordinal for _, ordinal in weights], np.int32)
    one = RowHashes(np.zeros(len(weights), np.uint64), np.zeros(len(weights), np.uint64))
    picks, kinds = pair_updates(
        row_hashes=hashes, identity_hashes=one, change_ordinals=ordinals, weights=values, order_of=public.take
    )  # fmt: skip
    staged = cast("StagedChanges", ToldChanges())
    expected = [change for part in ToldChanges().batches(rows, hashes, picks, kinds, ordinals) for change in part]
    by_hash = np.lexsort((public.low, public.high))
    # Rows of one hash come in one piece, and in any order.
    _, groups = np.unique(public.high[by_hash], return_inverse=True)
    with pytest.MonkeyPatch.context() as patches, TornIdentity(
        SCHEMA, hash_key=KEY, num_ordinals=STEPS, memory_bytes=memory_bytes
    ) as torn:  # fmt: skip
        patches.setattr(group_changes, "_MOST_ROWS", at_once)
        for piece in range(pieces):
            some = by_hash[groups * pieces // 31 == piece] if len(groups) else by_hash
            some = some[::-1]
            torn.add(rows.take(pa.array(some)), public.take(some), values[some], ordinals[some])
        found = [change for part in torn.changes(staged, all_ordinals=None) for change in cast("Any", part)]
    assert found == expected


def test_net_changes_get_the_ordinal_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.record_batch([pa.array([1, 2], pa.int64())], schema=SCHEMA)
    with TornIdentity(SCHEMA, hash_key=KEY, num_ordinals=STEPS, memory_bytes=1) as torn:
        torn.add(rows, row_hashes_of_batch(rows, key=RowHashes.PUBLIC_KEY), np.array([-1, 1]), np.zeros(2, np.int32))
        staged = cast("StagedChanges", ToldChanges())
        [found] = cast("Any", torn.changes(staged, all_ordinals=2))
    assert {(number, ordinal) for number, _, ordinal in found} == {(1, 2), (2, 2)}
