"""A file's effects against the sum of its terms, row by row."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from icefloe.batch.plan_document import DeleteState, FileWork
from icefloe.batch.rows.file_effects import file_rows
from icefloe.iceberg.data_file import DataFile

ROWS = 6
DELETED = {0: {0}, 1: {1, 2}, 2: {0, 2, 5}, 3: set(range(ROWS)), 4: set[int]()}
"""The positions that each delete file deletes."""
STATES = [frozenset[int](), frozenset({0}), frozenset({0, 1}), frozenset({1, 2}), frozenset({3}), frozenset({4})]
TERMS = st.lists(st.tuples(st.integers(0, 2), st.integers(-2, 2), st.integers(0, len(STATES) - 1)), max_size=5)


def work(terms: Iterable[tuple[int, int, int]], record_count: int = ROWS) -> FileWork:
    file = DataFile(path="f", file_format="PARQUET", spec_id=0, record_count=record_count, file_size_bytes=1)
    differences = [
        DeleteState(added=tuple(after - before), dropped=tuple(before - after)) for before, after in pairwise(STATES)
    ]
    return FileWork(data_file=file, terms=tuple(sorted(terms)), delete_states=tuple(differences))


def deleted_by(places: Iterable[int]) -> dict[int, BitMap64]:
    return {place: BitMap64(DELETED[place]) for place in places}


@given(TERMS)
def test_each_row_has_the_weights_of_the_terms_in_which_it_is_live(terms: list[tuple[int, int, int]]) -> None:
    expected = Counter[tuple[int, int]]()
    for ordinal, weight, state in terms:
        gone = set[int]().union(*(DELETED[place] for place in STATES[state]))
        for position in set(range(ROWS)) - gone:
            expected[ordinal, position] += weight
    found = file_rows(work(terms), deleted_by)
    weights = Counter[tuple[int, int]]()
    for effect in found.effects:
        positions = effect.rows.among(np.arange(ROWS)).tolist()
        assert effect.weight
        assert len(positions) == effect.rows.count(ROWS) > 0
        for position in positions:
            assert (effect.change_ordinal, position) not in weights
            weights[effect.change_ordinal, position] = effect.weight
    assert weights == {key: weight for key, weight in expected.items() if weight}
    assert found.rows_touched() == len({position for _, position in weights})


def test_a_row_that_only_one_of_two_terms_deletes_has_the_weight_of_the_other() -> None:
    # A file that is added twice, once with a delete file in force on row 0.
    weights = {
        position: effect.weight
        for effect in file_rows(work([(0, 1, 0), (0, 1, 1)]), deleted_by).effects
        for position in effect.rows.among(np.arange(ROWS)).tolist()
    }
    assert weights == {0: 1, 1: 2, 2: 2, 3: 2, 4: 2, 5: 2}


def test_delete_files_are_read_only_where_a_term_names_them() -> None:
    asked: list[list[int]] = []

    def remembering(places: Iterable[int]) -> dict[int, BitMap64]:
        asked.append(list(places))
        return deleted_by(asked[-1])

    file_rows(work([(0, 1, 0)]), remembering)
    assert asked == []
    file_rows(work([(0, 1, 0), (1, -1, 3)]), remembering)
    assert asked == [[1, 2]]


def test_deletes_of_every_row_leave_nothing_to_read() -> None:
    assert file_rows(work([(0, 1, 4)]), deleted_by).effects == ()
    assert file_rows(work([(0, 1, 0)], record_count=0), deleted_by).effects == ()


MEASURED = """
import numpy as np
from pyroaring import BitMap64
from batch.rows.test_file_effects import work
from support.fakes.peak_memory import peak_kib
from icefloe.batch.rows.file_effects import file_rows
from icefloe.batch.plan_document import DeleteState, FileWork
from icefloe.iceberg.data_file import DataFile

rows = 40_000_000
vector = BitMap64(range(0, rows, 2))
file = DataFile(path="f", file_format="PARQUET", spec_id=0, record_count=rows, file_size_bytes=1)
before = peak_kib()
found = file_rows(
    FileWork(data_file=file, terms=((0, 1, 1), (1, -1, 0), (1, 1, 1)), delete_states=(DeleteState(added=(0,)),)),
    lambda _: {0: vector},
)
for first in range(0, rows, 8_000_000):
    [len(effect.rows.among(np.arange(first, first + 131_072))) for effect in found.effects]
assert found.rows_touched() == rows
print((peak_kib() - before) * 1024 / len(vector))
"""


def test_a_deleted_row_takes_little_more_than_its_bit() -> None:
    """20 million positions took 73 bytes each (1.4 GiB); measured now: 1.0, for the bitmaps of two steps."""
    paths = [str(Path(__file__).parents[2]), *sys.path]
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = {paths!r}\n{MEASURED}"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=200, check=True)
    assert float(ended.stdout) < 4
