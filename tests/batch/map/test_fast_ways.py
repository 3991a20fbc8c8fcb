from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batch.map.rewritten_pairs import Rewrite, expected_weights, reader, row_key, written_pair
from icefloe.batch.map import rewritten_files
from icefloe.batch.map.carryover import CarryOver
from icefloe.batch.map.rewritten_files import FastWay
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.iceberg.files import reader as file_reader
from icefloe.iceberg.files.reader import BATCH_ROWS
from support.tables.small_rewrites import fast_ways_of_small_files

WAYS: list[tuple[FastWay, ...]] = [(), *((way,) for way in FastWay), tuple(FastWay)]
SHARES = st.sampled_from([0.0, 0.03, 0.3])
REWRITES = st.builds(
    Rewrite,
    seed=st.integers(0, 2**32),
    rows=st.sampled_from([1, 5, 40, 150]),
    keys=st.sampled_from([1, 20, 10_000]),
    is_shuffled=st.booleans(),
    changed=SHARES,
    changed_column=st.sampled_from([None, 1, 2, 5]),
    dropped=SHARES,
    inserted=SHARES,
    cut=SHARES,
    is_evolved=st.booleans(),
    codec=st.sampled_from(["zstd", "snappy"]),
    group_rows=st.sampled_from([(7, 7), (7, 50), (200, 200)]),
)


@pytest.fixture(scope="module", autouse=True)
def few_rows() -> Iterator[None]:
    with fast_ways_of_small_files():
        yield


def weights_of(carryover: CarryOver) -> dict[Any, int]:
    """The weights that do not cancel, by row."""
    weights: Counter[Any] = Counter()
    for rows in carryover.changed_rows():
        for row, weight in zip(rows.batch.to_pylist(maps_as_pydicts=None), rows.weights.tolist(), strict=True):
            weights[row_key(tuple(row.values()))] += weight
    return {row: weight for row, weight in weights.items() if weight}


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(REWRITES, st.sampled_from([5, 16, BATCH_ROWS]))
def test_every_fast_way_leaves_the_rows_that_counting_leaves(rewrite: Rewrite, batch_rows: int) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patches:
        patches.setattr(file_reader, "BATCH_ROWS", batch_rows)
        if batch_rows < BATCH_ROWS:
            # Samples of a few rows, so that files have many windows.
            patches.setattr(rewritten_files, "_SAMPLE_ROWS", 8)
            patches.setattr(rewritten_files, "_PROBE_ROWS", 4)
        removed, added, before, after = written_pair(Path(folder), rewrite)
        for ways in WAYS:
            carryover = CarryOver([removed, added], reader(), memory_bytes=1 << 30, fast_ways=ways)
            assert weights_of(carryover) == expected_weights(before, after), ways
            carryover.tally.require({0: len(after) - len(before)}, what="the test")


@pytest.mark.parametrize(
    ("way", "rewrite"),
    [
        (FastWay.IDENTICAL, Rewrite(seed=1, rows=200, keys=10_000, changed=0.05, changed_column=2)),
        (FastWay.IDENTICAL, Rewrite(seed=1, rows=200, keys=10_000, changed=1.0, changed_column=5)),
        (FastWay.IDENTICAL, Rewrite(seed=1, rows=200, keys=10_000)),
        (FastWay.ALIGNED, Rewrite(seed=1, rows=200, keys=10_000, changed=0.05)),
        (FastWay.MATCHED, Rewrite(seed=1, rows=200, keys=10_000, dropped=0.05)),
        (FastWay.MATCHED, Rewrite(seed=1, rows=200, keys=10_000, inserted=0.05, dropped=0.05)),
        (FastWay.MATCHED, Rewrite(seed=1, rows=200, keys=10_000, changed=0.05)),
    ],
)
def test_a_fast_way_that_fits_hashes_few_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: FastWay, rewrite: Rewrite
) -> None:
    removed, added, before, after = written_pair(tmp_path, rewrite)
    hashed, of_batch = 0, RowHashes.of_batch

    def counted(batch: pa.RecordBatch, *, key: int) -> RowHashes:
        nonlocal hashed
        hashed += batch.num_rows
        return of_batch(batch, key=key)

    monkeypatch.setattr(RowHashes, "of_batch", counted)
    carryover = CarryOver([removed, added], reader(), memory_bytes=1 << 30, fast_ways=(way,))
    assert weights_of(carryover) == expected_weights(before, after)
    assert carryover.files_by_way == {way: 2, "hashed": 0}
    assert hashed < 200 or rewrite.changed == 1.0


def test_equal_columns_are_decoded_of_one_file_only(tmp_path: Path) -> None:
    rewrite = Rewrite(seed=1, rows=2_000, keys=10_000, changed=0.0005, changed_column=2, group_rows=(500, 500))
    removed, added, before, after = written_pair(tmp_path, rewrite)
    decoded = {}
    for ways in WAYS:
        read = reader()
        carryover = CarryOver([removed, added], read, memory_bytes=1 << 30, fast_ways=ways)
        assert sum(len(rows.weights) for rows in carryover.changed_rows()) == len(expected_weights(before, after)) > 0
        assert carryover.tally.rows_read == 4_000
        decoded[ways] = read.decoded_bytes
    # The changed column of both files, and the equal ones of one file.
    assert decoded[(FastWay.IDENTICAL,)] < 0.6 * decoded[(FastWay.ALIGNED,)]
