from dataclasses import replace

import pytest

from icefloe.batch.staged_changes import RangeResult
from icefloe.errors import TerminalError
from icefloe.shuffle.index_file import OrdinalSums
from icefloe.sinks.manifest import CommitMessage
from icefloe.storage.location import open_store

MESSAGE = CommitMessage(number=3, rows=1, counts={"insert": 1}, hash_sum=2**127, size_bytes=9, details={"names": ["a"]})
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
