import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.batch.sums import Sums
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.errors import TerminalError

ROWS = st.lists(st.tuples(st.integers(0, 2**128 - 1), st.integers(0, 3), st.integers(-5, 5)), min_size=1, max_size=30)
Rows = list[tuple[int, int, int]]


def sums_of(rows: Rows) -> Sums:
    sums = Sums()
    hashes = RowHashes(
        np.array([number >> 64 for number, _, _ in rows], np.uint64),
        np.array([number & (2**64 - 1) for number, _, _ in rows], np.uint64),
    )
    ordinals = np.array([ordinal for _, ordinal, _ in rows], np.int32)
    sums.add_rows(hashes, ordinals, np.array([weight for _, _, weight in rows], np.int64))
    return sums


@given(ROWS)
def test_sums_are_those_of_plain_numbers(rows: Rows) -> None:
    found = {each.change_ordinal: each for each in sums_of(rows).to_documents()}
    for ordinal in {ordinal for _, ordinal, _ in rows}:
        here = [(number, weight) for number, of, weight in rows if of == ordinal]
        assert found[ordinal].rows == len(here)
        assert found[ordinal].signed_count == sum(weight for _, weight in here)
        assert found[ordinal].hash_sum == sum(number * weight for number, weight in here) % 2**128
    assert sums_of(rows).hash_sum() == sum(number * weight for number, _, weight in rows) % 2**128


@given(ROWS, st.integers(0, 30), st.randoms())
def test_order_and_grouping_do_not_matter(rows: Rows, cut: int, random: "np.random.Generator") -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    whole = sums_of(rows)
    groups = [part for part in (shuffled[:cut], shuffled[cut:]) if part]
    parts = Sums(each for group in groups for each in sums_of(group).to_documents())
    parts.require(whole, what="the parts")
    Sums(whole.to_documents()).require(parts, what="the documents")


def test_rows_that_cancel_add_nothing() -> None:
    sums_of([(7, 0, 1), (7, 0, -1)]).require(Sums(), what="nothing")


@pytest.mark.parametrize("other", [[(7, 1, 1)], [(7, 0, 2)], [(8, 0, 1)], [(7, 0, 1), (9, 2, 1), (9, 2, 1)]])
def test_another_ordinal_count_or_value_is_named(other: Rows) -> None:
    with pytest.raises(TerminalError, match=r"^range 3 does not add up in change ordinal \d: expected") as failed:
        sums_of(other).require(sums_of([(7, 0, 1)]), what="range 3")
    assert failed.value.exit_code == 65


@given(ROWS, st.integers(0, 3))
def test_net_sums_are_compared_over_all_ordinals(rows: Rows, ordinal: int) -> None:
    of_one_ordinal = sums_of([(number, ordinal, weight) for number, _, weight in rows])
    of_one_ordinal.require(sums_of(rows), what="the batch", per_ordinal=False)


@pytest.mark.parametrize("other", [[(7, 1, 1), (8, 0, 1)], [(7, 0, 2), (8, 1, -1)], [(8, 0, 1)], []])
def test_net_sums_that_differ_over_all_ordinals_are_an_error(other: Rows) -> None:
    with pytest.raises(TerminalError, match=r"^range 3 does not add up over its steps: expected 1 rows net"):
        sums_of(other).require(sums_of([(7, 0, 1)]), what="range 3", per_ordinal=False)
