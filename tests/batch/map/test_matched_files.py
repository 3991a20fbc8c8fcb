from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from batch.map.rewritten_pairs import Rewrite, expected_weights, reader, row_key, written_pair
from icefloe.batch.map import matched_files
from icefloe.batch.map.hashed_rows import MemoryBudget


@pytest.mark.parametrize("is_shuffled", [False, True])
def test_rows_of_likely_pairs_that_differ_in_some_column_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_shuffled: bool
) -> None:
    monkeypatch.setattr(matched_files, "LEAST_MATCHED_ROWS", 0)
    # The column that changes does not tell rows apart, so the pairs are found without it.
    monkeypatch.setattr(matched_files, "_telling_columns", lambda *_: ["key"])
    rewrite = Rewrite(
        seed=3, rows=200, keys=10_000, changed=0.03, changed_column=2, is_shuffled=is_shuffled, group_rows=(200, 200)
    )
    removed, added, before, after = written_pair(tmp_path, rewrite)
    pair = matched_files.match(removed, added, reader(), budget=MemoryBudget(1 << 30))
    assert pair is not None
    weights: Counter[Any] = Counter()
    for side, weight in zip(pair, (-1, 1), strict=True):
        assert len(side.hashes) < len(before)
        for batch in side.kept or []:
            for row in batch.to_pylist(maps_as_pydicts=None):
                weights[row_key(tuple(row.values()))] += weight
    expected = expected_weights(before, after)
    assert {row: weight for row, weight in weights.items() if weight} == expected
    assert len(expected) > 10
