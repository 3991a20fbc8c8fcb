import sys
from collections.abc import Callable
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from demo.progress import Progress


class Timers:
    """Timers whose time passes when a test says so."""

    def __init__(self) -> None:
        self.running: list[Callable[[], object]] = []

    def __call__(self, _: float, say: Callable[[str], object], words: list[str]) -> Any:
        def ring() -> object:
            return say(*words)

        def cancel() -> None:
            if ring in self.running:
                self.running.remove(ring)

        return SimpleNamespace(start=lambda: self.running.append(ring), cancel=cancel)

    def pass_time(self) -> None:
        while self.running:
            self.running.pop()()


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> Timers:
    made = Timers()
    monkeypatch.setattr("demo.progress.Timer", made)
    return made


def test_a_step_says_how_long_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([100.0, 103.21])
    monkeypatch.setattr("demo.progress.monotonic", lambda: next(times))
    printed = StringIO()
    with Progress(Console(file=printed)).step("Making the table"):
        pass
    assert printed.getvalue() == "Making the table: 3.2 s\n"


def test_without_a_terminal_only_what_takes_long_is_said(timers: Timers) -> None:
    printed = StringIO()
    with Progress(Console(file=printed)).under_way("batch 1") as begin:
        begin("plan")
        begin("shuffle_write")
        timers.pass_time()
    assert printed.getvalue() == "  batch 1: shuffle_write ...\n"


def test_nothing_is_said_of_what_ended_quickly(timers: Timers) -> None:
    printed = StringIO()
    with Progress(Console(file=printed)).under_way("batch 1") as begin:
        begin("plan")
    timers.pass_time()
    assert printed.getvalue() == ""


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
