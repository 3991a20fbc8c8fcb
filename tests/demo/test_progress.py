import re
import sys
from io import StringIO
from threading import Event

import pytest
from rich.console import Console

from demo.progress import Progress


class Printed(StringIO):
    """The printed text, and a moment to wait for."""

    def __init__(self) -> None:
        super().__init__()
        self.something = Event()

    def write(self, text: str) -> int:
        self.something.set()
        return super().write(text)


def test_a_step_says_how_long_it_took() -> None:
    printed = StringIO()
    with Progress(Console(file=printed)).step("Making the table"):
        pass
    assert re.fullmatch(r"Making the table: 0\.\d s\n", printed.getvalue())


def test_without_a_terminal_only_what_takes_long_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demo.progress._LONG_SECONDS", 0.05)
    printed = Printed()
    with Progress(Console(file=printed)).under_way("batch 1") as begin:
        begin("plan")
        begin("shuffle_write")
        assert printed.something.wait(10)
    assert printed.getvalue() == "  batch 1: shuffle_write ...\n"


def test_nothing_is_said_of_what_ended_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demo.progress._LONG_SECONDS", 0.05)
    printed = Printed()
    with Progress(Console(file=printed)).under_way("batch 1") as begin:
        begin("plan")
    assert not printed.something.wait(0.1)


def test_a_terminal_shows_what_is_under_way_and_nothing_of_it_stays() -> None:
    printed = StringIO()
    console = Console(file=printed, force_terminal=True, width=80)
    progress = Progress(console)
    with progress.under_way("batch 1") as begin:
        begin("shuffle_write")
    progress.say("batch 1 is done")
    assert "batch 1: shuffle_write" in printed.getvalue()
    assert printed.getvalue().split("\x1b[2K")[-1] == "batch 1 is done\n"


def test_foreign_output_stays_off_the_terminal() -> None:
    stdout = sys.stdout
    with Progress(Console(file=StringIO(), force_terminal=True)).under_way("batch 1"):
        assert sys.stdout is stdout


def test_a_line_is_never_wrapped_or_coloured() -> None:
    printed = StringIO()
    Progress(Console(file=printed, width=20, force_terminal=True)).say("[red]1[/red] " * 10)
    assert printed.getvalue() == "[red]1[/red] " * 10 + "\n"
