from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from icefloe.batch.reduce.range_rows import BYTES_PER_ROW, RowDivision, _next_bits
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.shuffle.partitions import part_ids

SCHEMA = pa.schema([pa.field("high", pa.uint64()), pa.field("low", pa.uint64()), pa.field("place", pa.int64())])


def hashes_of(batch: pa.RecordBatch) -> RowHashes:
    return RowHashes(*(batch.column(name).to_numpy(zero_copy_only=False).copy() for name in ("high", "low")))


def batches(high: list[int], low: list[int]) -> Iterator[pa.RecordBatch]:
    columns = [pa.array(high, pa.uint64()), pa.array(low, pa.uint64()), pa.array(range(len(high)), pa.int64())]
    yield from pa.Table.from_arrays(columns, schema=SCHEMA).to_batches(max_chunksize=7)


def divided(memory_bytes: int, high: list[int], low: list[int]) -> list[tuple[bool, list[tuple[int, int, int]]]]:
    division = RowDivision(schema=SCHEMA, memory_bytes=memory_bytes)
    return [
        (part.fits, [tuple(row.values()) for batch in part.batches for row in batch.to_pylist()])
        for part in division.parts(batches(high, low), hashes_of)
    ]


@pytest.mark.parametrize("memory_bytes", [1, 4_000, 20_000])
def test_parts_hold_each_hash_once_in_ascending_order_and_their_rows_in_order(memory_bytes: int) -> None:
    random = np.random.default_rng(3)
    # Some hashes share their first bits, as those of one part of a part do.
    choices = np.concatenate([random.integers(0, 1 << 63, 30), (5 << 50) + random.integers(0, 9, 9)])
    high = random.choice(choices, 500).tolist()
    found = divided(memory_bytes, high, [number % 5 for number in high])
    rows = [row for _, part in found for row in part]
    assert sorted(rows) == sorted(zip(high, [number % 5 for number in high], range(500), strict=True))
    assert len({one for one, *_ in rows}) == sum(len({one for one, *_ in part}) for _, part in found)
    firsts = [min(part)[0] for _, part in found]
    assert firsts == sorted(firsts)
    for fits, part in found:
        assert [place for *_, place in part] == sorted(place for *_, place in part)
        assert fits or len({one for one, *_ in part}) == 1
        assert not fits or len(part) * BYTES_PER_ROW <= memory_bytes // 4


def test_many_rows_of_one_hash_do_not_fit_and_are_not_divided_for_ever() -> None:
    [(fits, rows)] = divided(1, [7] * 50, [3] * 50)
    assert (fits, len(rows)) == (False, 50)


def test_different_hashes_of_one_upper_half_stay_together() -> None:
    [(fits, rows)] = divided(1, [7] * 50, [3, 4] * 25)
    assert (fits, len(rows)) == (True, 50)


def test_rows_are_divided_first_by_the_bits_that_choose_a_part_of_a_divided_partition() -> None:
    # A range of one part begins with the next bits; with other first bits it would leave the order of delivery.
    high = np.random.default_rng(1).integers(0, 1 << 64, 1_000, np.uint64)
    hashes = RowHashes(high, np.zeros_like(high))
    assert _next_bits(hashes, 0).tolist() == part_ids(hashes).tolist()
