"""Statistics of the row hash on data that is all structure. Nothing here is random, so nothing here is flaky."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

from changes.hash_values import KEY
from icefloe.changes.row_hash.row_hashes import RowHashes

COLUMNS = 16
PATTERNS = (np.arange(1 << COLUMNS)[:, None] >> np.arange(COLUMNS)) & 1 == 1
HERE, THERE = np.meshgrid(np.arange(256), np.arange(256))
PRODUCTS = ["".join(letters) for letters in itertools.product("ACGT", repeat=8)]


def columns_of(make):
    return [make(PATTERNS[:, index]) for index in range(COLUMNS)]


STRUCTURED = {
    "consecutive numbers": [pa.array(np.arange(1 << 16))],
    "a grid of numbers": [pa.array(HERE.ravel()), pa.array(THERE.ravel())],
    "a grid of doubles": [pa.array(HERE.ravel() / 2), pa.array(THERE.ravel() * 1e9)],
    "nulls and zeros": columns_of(lambda bits: pa.array(np.zeros(len(bits), np.int64), mask=bits)),
    "zeros and ones": columns_of(lambda bits: pa.array(bits.astype(np.int64))),
    "signs": columns_of(lambda bits: pa.array(np.where(bits, -1.5, 1.5))),
    "upper bits": columns_of(lambda bits: pa.array(bits.astype(np.int64) << 62)),
    "runs of zero bytes": columns_of(lambda bits: pa.array([b"\0" * int(bit) for bit in bits])),
    "letters at the end": [pa.array(["x" * 12 + text for text in PRODUCTS])],
    "letters in lists": [pa.array([list(text) for text in PRODUCTS])],
}


@pytest.mark.parametrize("name", STRUCTURED)
def test_structured_rows_spread_like_random_ones(name):
    hashes = RowHashes.of(STRUCTURED[name], key=KEY)
    rows = len(hashes)
    for lane in (hashes.low, hashes.high):
        assert len(np.unique(lane)) == rows
        for shift in (0, 16, 32, 40):
            buckets = np.bincount((lane >> np.uint64(shift) & np.uint64(1023)).astype(np.int64), minlength=1024)
            chi_square = ((buckets - rows / 1024) ** 2).sum() / (rows / 1024)
            assert 1023 - 5 * 45.2 < chi_square < 1023 + 5 * 45.2  # five standard deviations
    assert np.bincount(hashes.modulo(97), minlength=97).min() > 0.8 * rows / 97


@pytest.mark.parametrize("is_float", [False, True])
def test_each_bit_of_a_value_turns_each_bit_of_the_hash_half_of_the_time(is_float):
    rows = 4_096
    values = np.arange(rows) * 3 + (np.arange(rows) / 7).view(np.int64) * is_float
    before = RowHashes.of([pa.array(values), pa.array(values)], key=KEY)
    for bit in range(62):
        after = RowHashes.of([pa.array(values), pa.array(values ^ (1 << bit))], key=KEY)
        for one, other in ((before.low, after.low), (before.high, after.high)):
            turned = np.unpackbits((one ^ other).view(np.uint8).reshape(rows, 8), axis=1).mean(axis=0)
            assert np.abs(turned - 0.5).max() < 0.06, bit
