"""Cancelled rows of a range, many more than memory holds, looked up for one piece after another."""

from pathlib import Path
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

from icefloe.batch.reduce import cancelled_rows
from icefloe.batch.reduce.cancelled_rows import CancelledRows
from icefloe.batch.reduce.moves import WeightedHashes
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.shuffle.partitions import reduce_ids

PARTITIONS: Final = 3


def some_rows(seed: int, count: int, *, identities: int) -> WeightedHashes:
    chance = np.random.default_rng(seed)
    hashes = chance.integers(0, 1 << 64, (2, count), np.uint64)
    of_identity = chance.integers(0, 1 << 64, (2, identities), np.uint64)[:, chance.integers(0, identities, count)]
    return WeightedHashes(
        row_hashes=RowHashes(*hashes),
        identity_hashes=RowHashes(*of_identity),
        change_ordinals=chance.integers(0, 3, count, np.int32),
        weights=chance.integers(1, 9, count, np.int64),
    )


def rows_in(rows: WeightedHashes) -> set[tuple[int, ...]]:
    hashes = rows.row_hashes.high, rows.row_hashes.low, rows.identity_hashes.high
    numbers = rows.change_ordinals, rows.weights
    return set(zip(*(each.tolist() for each in hashes), *(each.tolist() for each in numbers), strict=True))


def pieces(rows: WeightedHashes) -> list[NDArray[np.int64]]:
    """The positions of pieces: those of a partition, of some identities there, and of some rows of one identity."""
    found = []
    partitions = reduce_ids(rows.identity_hashes, PARTITIONS)
    for partition in range(PARTITIONS):
        here = np.flatnonzero(partitions == partition)
        ordered = here[np.lexsort((rows.row_hashes.high[here], rows.identity_hashes.high[here]))]
        one = ordered[rows.identity_hashes.high[ordered] == rows.identity_hashes.high[ordered[:1]]]
        found += [here, *np.array_split(ordered, 3), *np.array_split(one, 2)]
    return [each for each in found if len(each)]


@pytest.fixture(params=[7, 100, 1 << 20])
def most_waiting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(cancelled_rows, "_LEAST_WAITING_ROWS", request.param)
    monkeypatch.setattr(cancelled_rows, "_ROWS_PER_MARK", 4)
    return int(request.param)


@pytest.mark.parametrize("identities", [1, 4, 400])
def test_a_piece_gets_all_of_its_rows_and_no_more_than_its_part_of_the_order(
    tmp_path: Path, most_waiting: int, identities: int
) -> None:
    rows = some_rows(identities, 500, identities=identities)
    with CancelledRows(PARTITIONS, memory_bytes=1, disk=tmp_path) as cancelled:
        for start in range(0, 500, 60):
            cancelled.add(rows.slice(start, start + 60))
        for piece in pieces(rows):
            own = rows.take(piece)
            found = rows_in(cancelled.of(own.row_hashes, own.identity_hashes))
            assert found >= rows_in(own)
            assert len({each[2] for each in found}) == len({each[2] for each in rows_in(own)})
            if len({each[2] for each in found}) == 1:
                assert found == rows_in(own)
        assert bool(list(tmp_path.iterdir())) == (most_waiting < 500)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("most_waiting")
def test_a_piece_of_other_identities_gets_none(tmp_path: Path) -> None:
    rows, others = some_rows(1, 50, identities=2), some_rows(2, 1, identities=1)
    with CancelledRows(PARTITIONS, memory_bytes=1, disk=tmp_path) as cancelled:
        assert not len(cancelled.of(others.row_hashes, others.identity_hashes).weights)
        cancelled.add(rows)
        assert not len(cancelled.of(others.row_hashes, others.identity_hashes).weights)
