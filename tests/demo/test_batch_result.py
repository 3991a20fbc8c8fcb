from dataclasses import replace
from typing import Any

import pytest

from demo.batch_result import HEADER, BatchResult
from demo.flights_table import TableChange

MADE = TableChange(title="delays of March corrected", updates=1_645)


@pytest.fixture
def result() -> BatchResult:
    return BatchResult(
        route="shuffle", commits=1, rows_read=57_668, bytes_read=1_500_000, bytes_shuffled=90_000,
        inserts=0, updates=1_645, deletes=0,
    )  # fmt: skip


def test_a_batch_that_delivered_what_was_done_differs_in_nothing(result: BatchResult) -> None:
    assert result.differences(MADE) == []


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ({"inserts": 2}, "inserts is 2, not 0"),
        ({"updates": 1_644}, "updates is 1644, not 1645"),
        ({"commits": 2}, "commits is 2, not 1"),
        ({"route": "insert_only"}, "route is insert_only, not shuffle"),
    ],
)
def test_a_batch_that_did_something_else_says_what(result: BatchResult, found: dict[str, Any], sentence: str) -> None:
    assert replace(result, **found).differences(MADE) == [f"delays of March corrected: {sentence}"]


def test_a_batch_is_one_line_under_its_header(result: BatchResult) -> None:
    line = result.line(MADE.title, 21.34)
    assert len(line) == len(HEADER)
    assert line.startswith("delays of March corrected  ")
    assert line.split()[4:] == [
        "1", "shuffle", "57,668", "1.4", "MiB", "87.9", "KiB", "0", "1,645", "0", "21.3",
    ]  # fmt: skip
