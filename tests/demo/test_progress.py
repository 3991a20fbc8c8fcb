from io import StringIO

import pytest
from demo.flights_table import TableChange
from demo.progress import BatchResult, Progress
from rich.console import Console


@pytest.fixture
def result() -> BatchResult:
    return BatchResult(
        route="shuffle",
        rows_read=57_668,
        bytes_read=1_500_000,
        bytes_shuffled=90_000,
        inserts=0,
        updates=1_645,
        deletes=0,
    )


def test_a_batch_that_delivered_what_was_done_differs_in_nothing(result: BatchResult) -> None:
    assert result.differences(TableChange(title="a correction", updates=1_645)) == []


def test_a_batch_that_delivered_something_else_says_what(result: BatchResult) -> None:
    made = TableChange(title="a correction", inserts=2, updates=1_645)
    assert result.differences(made) == ["inserts: 0 delivered, 2 made"]


def test_each_batch_is_one_line_under_its_header(result: BatchResult) -> None:
    printed = StringIO()
    progress = Progress(Console(file=printed, width=80))
    progress.header()
    progress.batch(TableChange(title="delays of March are corrected"), result, 21.34)
    header, line = printed.getvalue().strip().splitlines()
    assert line.split("  ")[0] == "delays of March are corrected"
    assert line.split()[5:] == ["shuffle", "57,668", "1.4", "MiB", "87.9", "KiB", "0", "1,645", "0", "21.3"]
    assert header.index("seconds") + len("seconds") == len(line)


def test_without_a_terminal_a_step_says_when_it_starts_and_ends() -> None:
    printed = StringIO()
    with Progress(Console(file=printed)).step("Making the table"):
        assert printed.getvalue() == "Making the table ...\n"
    assert printed.getvalue().startswith("Making the table ...\nMaking the table: 0.0 s")
