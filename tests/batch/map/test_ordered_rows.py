from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from batch.map.rewritten_pairs import Rewrite, expected_weights, reader, row_key, written_pair
from icefloe.batch.fast_ways import FastWay
from icefloe.batch.map import rewritten_files
from icefloe.batch.map.hashed_rows import FileTally, MemoryBudget
from icefloe.batch.map.rewritten_files import FileWindow, cancel_in_order
from support.tables.small_rewrites import fast_ways_of_small_files


@pytest.mark.parametrize("dropped", [0.0, 0.05])
def test_rows_of_likely_pairs_that_differ_in_some_column_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dropped: float
) -> None:
    # The column that changes does not tell rows apart, so the pairs are found without it.
    monkeypatch.setattr(rewritten_files, "telling_columns", lambda _: [0])
    rewrite = Rewrite(
        seed=3, rows=200, keys=10_000, changed=0.03, changed_column=2, dropped=dropped, group_rows=(200, 200)
    )
    removed, added, before, after = written_pair(tmp_path, rewrite)
    budget = MemoryBudget(1 << 30)
    windows = [FileWindow(FileTally(file), reader(), budget, most_left_rows=1_000) for file in (removed, added)]
    with fast_ways_of_small_files():
        assert cancel_in_order(*windows, ways=(FastWay.MATCHED,)) is FastWay.MATCHED
    assert all(window.leave_rest() for window in windows)
    weights: Counter[Any] = Counter()
    for window, weight in zip(windows, (-1, 1), strict=True):
        left = window.remaining.hashed_rows()
        assert len(left.hashes) < len(before) / 2
        for batch in left.kept or []:
            for row in batch.to_pylist(maps_as_pydicts=None):
                weights[row_key(tuple(row.values()))] += weight
    expected = expected_weights(before, after)
    assert {row: weight for row, weight in weights.items() if weight} == expected
    assert len(expected) > 5


def test_few_rows_that_are_left_do_not_keep_the_batch_that_they_were_read_with(tmp_path: Path) -> None:
    removed, _, _, _ = written_pair(tmp_path, Rewrite(seed=5, rows=2_000, keys=10_000, group_rows=(2_000, 2_000)))
    window = FileWindow(FileTally(removed), reader(), MemoryBudget(1 << 30), most_left_rows=4_000)
    assert window.fill()
    whole_bytes = window.window.nbytes
    window.finish(1_990, np.zeros(0, np.int64))
    assert window.leave_rest()
    [kept] = window.remaining.hashed_rows().kept or []
    assert kept.num_rows == 10
    # Buffers of a slice are counted whole.
    assert kept.get_total_buffer_size() < whole_bytes / 10
