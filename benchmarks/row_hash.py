"""The speed of hashing, cancelling, consolidating and pairing rows on one core: ``python benchmarks/row_hash.py``.

Needs no table: 19 columns as in the flights and taxi tables, random values, batches of 131,072 rows. Prints the best
of several runs, as other work on the machine only ever makes a run slower.
"""

import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1] / "plugins"))

from icefloe.changes.consolidate import consolidate, surviving_rows
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.changes.updates import pair_updates

KEY = 0x000102030405060708090A0B0C0D0E0F
BATCH_ROWS = 131_072
SIDE_ROWS = 2_000_000


def best_seconds(work, runs):
    best = float("inf")
    for _ in range(runs):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def kinds_of_columns(rows, random):
    codes = np.array(["AA", "B6", "DL", "EV", "UA", "WN"])[random.integers(0, 6, rows)]
    tails = np.char.add("N", random.integers(100, 99_999, rows).astype(str))
    sentences = np.array(["x" * length for length in range(9, 44)])[random.integers(0, 35, rows)]
    return {
        "int64": pa.array(random.integers(0, 2**40, rows)),
        "int64, 5 % null": pa.array(random.integers(0, 2**40, rows), mask=random.random(rows) < 0.05),
        "int32": pa.array(random.integers(0, 2**31, rows).astype(np.int32)),
        "double": pa.array(random.random(rows)),
        "timestamp": pa.array(random.integers(0, 2**50, rows), pa.timestamp("us")),
        "boolean": pa.array(random.random(rows) < 0.5),
        "decimal(20,0)": pa.array(random.integers(0, 10**9, rows)).cast(pa.decimal128(20, 0)),
        "string of 2": pa.array(codes),
        "string of 4 to 6": pa.array(tails),
        "string of 4 to 6, dictionary": pa.array(tails).dictionary_encode(),
        "string of 10 to 44": pa.array(np.char.add(sentences, random.integers(0, 10, rows).astype(str))),
        "string of 9 to 43, 35 distinct": pa.array(sentences),
        "string of 9 to 43, dictionary": pa.array(sentences).dictionary_encode(),
        "uuid": pa.array([random.bytes(16) for _ in range(rows)], pa.binary(16)),
        "list of 3 int64": pa.array([[1, 2, 3]] * rows),
    }


def mixed_columns(kinds):
    """As in the flights table: 14 numbers, one time, 4 short strings, of which some are null."""
    names = ["int64"] * 6 + ["int64, 5 % null"] * 2 + ["double"] * 6 + ["timestamp"]
    return [kinds[name] for name in [*names, "string of 2", "string of 2", "string of 2", "string of 4 to 6"]]


def random_hashes(rows, random):
    return RowHashes(*(random.integers(0, 2**64, rows, dtype=np.uint64) for _ in range(2)))


def report_hashing(random):
    kinds = kinds_of_columns(BATCH_ROWS, random)
    columns = mixed_columns(kinds)
    seconds = best_seconds(lambda: RowHashes.of(columns, key=KEY), 30)
    rows_per_second = BATCH_ROWS / seconds
    print(f"{len(columns)} mixed columns: {rows_per_second / 1e6:.1f} M rows/s, ", end="")
    print(f"{rows_per_second * len(columns) / 1e6:.0f} M values/s")
    for name, array in kinds.items():

        def work(array=array):
            RowHashes.of([array] * 4, key=KEY)

        print(f"  {name:32} {best_seconds(work, 10) / BATCH_ROWS / 4 * 1e9:6.1f} ns per value")


def report_consolidation(random):
    removed = random_hashes(SIDE_ROWS, random)
    order = random.permutation(SIDE_ROWS)
    for differing in (0, 2_000, 20_000, 200_000, SIDE_ROWS):
        fresh = random_hashes(differing, random)
        added = RowHashes(
            np.concatenate([fresh.high, removed.high[differing:]]), np.concatenate([fresh.low, removed.low[differing:]])
        ).take(order)
        seconds = best_seconds(lambda added=added: surviving_rows(removed, added), 3)
        print(f"cancel 2 M against 2 M rows, {differing:9,} differ: {seconds * 1e3:5.0f} ms")


def report_pairing(random):
    rows = 1_000_000
    hashes = random_hashes(rows, random)
    identities = random_hashes(rows // 2, random).take(random.permutation(rows) // 2)
    ordinals = random.integers(0, 3, rows).astype(np.int32)
    weights = random.choice([-1, 1], rows)
    seconds = best_seconds(lambda: consolidate(hashes, ordinals, weights), 3)
    print(f"consolidate 1 M rows: {seconds * 1e3:5.0f} ms")
    seconds = best_seconds(
        lambda: pair_updates(
            row_hashes=hashes,
            identity_hashes=identities,
            change_ordinals=ordinals,
            weights=weights,
            order_of=hashes.take,
        ),
        3,
    )
    print(f"pair and order 1 M rows: {seconds * 1e3:5.0f} ms")
    print(f"signed sum of 1 M hashes: {best_seconds(lambda: hashes.signed_sum(weights), 5) * 1e3:5.1f} ms")
    print(f"1 M hashes modulo 1,000: {best_seconds(lambda: hashes.modulo(1000), 5) * 1e3:5.1f} ms")


if __name__ == "__main__":
    generator = np.random.default_rng(3)
    report_hashing(generator)
    report_consolidation(generator)
    report_pairing(generator)
