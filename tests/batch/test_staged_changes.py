from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from changes.hash_values import KEY
from icefloe.batch import staged_changes
from icefloe.batch.rows.file_effects import Sums
from icefloe.batch.staged_changes import RangeResult, StagedChanges
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.errors import TerminalError
from icefloe.shuffle.index_file import OrdinalSums
from icefloe.sinks.manifest import CommitMessage
from icefloe.storage.location import open_store
from support.pipelines.workshop import Workshop


def test_delivered_rows_are_counted_and_summed_in_any_number_of_batches(workshop: Workshop, monkeypatch) -> None:
    workshop.append([1, 2, 3])
    folder = workshop.open().batch_folder
    rows = pa.record_batch(
        {"id": [1, 2, 3], "value": [1.0, 2.0, 3.0], "word": pa.array(list("abc"), pa.large_string())},
        schema=folder.shape.delivered.arrow,
    )
    hashes = RowHashes.of_batch(rows, key=KEY)
    picks, types = np.array([2, 0, 0, 1]), np.array([1, 2, 3, 0], np.uint8)
    delivered = []
    for batch_rows in (1 << 16, 3, 1):
        monkeypatch.setattr(staged_changes, "_BATCH_ROWS", batch_rows)
        staged = StagedChanges(folder)
        batches = list(staged.batches(rows, hashes, picks, types, np.zeros(3, np.int32)))
        assert len(batches) == -(-4 // batch_rows)
        assert staged.by_type.tolist() == [1, 1, 1, 1]
        delivered.append((pa.Table.from_batches(batches).combine_chunks(), staged.sums.to_documents()[0].hash_sum))
    assert delivered[0] == delivered[1] == delivered[2]
    table, hash_sum = delivered[0]
    assert table.schema == staged.schema
    assert table["id"].to_pylist() == [3, 1, 1, 2]
    assert table["_change_type"].to_pylist() == ["DELETE", "UPDATE_BEFORE", "UPDATE_AFTER", "INSERT"]
    assert set(table["_batch"].to_pylist()) == {0}
    assert hash_sum == (hashes[1] - hashes[2]) % 2**128


def test_batches_of_large_rows_have_few_of_them(workshop: Workshop) -> None:
    workshop.append([1])
    folder = workshop.open().batch_folder
    words = pa.array(["x" * (1 << 20)] * 100, pa.large_string())
    rows = pa.record_batch({"id": range(100), "value": [1.0] * 100, "word": words}, schema=folder.shape.delivered.arrow)
    batches = StagedChanges(folder).batches(
        rows, RowHashes.of_batch(rows, key=KEY), np.arange(100), np.zeros(100, np.uint8), np.zeros(100, np.int32)
    )
    assert [batch.num_rows for batch in batches] == [63, 37]


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


@pytest.mark.parametrize("other", [[(7, 1, 1)], [(7, 0, 2)], [(8, 0, 1)], [(7, 0, 1), (9, 2, 1), (9, 2, 1)]])
def test_another_ordinal_count_or_value_is_named(other: Rows) -> None:
    with pytest.raises(TerminalError, match=r"^range 3 does not add up in change ordinal \d: expected") as failed:
        sums_of(other).require(sums_of([(7, 0, 1)]), what="range 3")
    assert failed.value.exit_code == 65


@given(ROWS, st.integers(0, 3))
def test_net_sums_are_compared_over_all_ordinals(rows: Rows, ordinal: int) -> None:
    of_one_ordinal = sums_of([(number, ordinal, weight) for number, _, weight in rows])
    of_one_ordinal.require(sums_of(rows), what="the batch", per_ordinal=False)


MESSAGE = CommitMessage(number=3, rows=1, counts={"insert": 1}, hash_sum=2**127, files={"a": 9})
RESULT = RangeResult(
    range_id=3,
    message=MESSAGE,
    sums=(OrdinalSums(change_ordinal=0, rows=1, signed_count=1, hash_sum=2**127),),
    fetched_bytes=7,
    fetched_blocks=2,
    seconds=0.5,
)


def test_the_first_result_of_a_range_counts() -> None:
    store = open_store("memory://results-first")
    assert RangeResult.load(store, 3) is None
    assert RESULT.create(store) == RESULT
    assert replace(RESULT, seconds=9.0).create(store) == RESULT
    assert RangeResult.load(store, 3) == RESULT


def test_results_come_in_the_order_of_the_ranges() -> None:
    store = open_store("memory://results-order")
    RESULT.create(store)
    assert RangeResult.load_all(store, [5, 3, 0]) == [None, RESULT, None]
    assert RangeResult.load_all(store, []) == []


def test_a_damaged_result_is_named() -> None:
    store = open_store("memory://results-damaged")
    store.put("results/00003.json", b'{"version": 1')
    with pytest.raises(TerminalError, match=r"the range result memory://results-damaged/results/00003\.json"):
        RangeResult.load(store, 3)
