import io
import threading

import pytest
from rich.console import Console

from icefloe.cli.checks import Checklist
from icefloe.cli.screen import Screen
from icefloe.errors import TerminalError, TransientError


def checklist(encoding: str = "utf-8", *, patience_seconds: float = 60) -> tuple[Checklist, io.TextIOWrapper]:
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True)
    screen = Screen(output=Console(file=out, width=200), progress=Console(quiet=True))
    return Checklist(screen, patience_seconds=patience_seconds), out


def printed(out: io.TextIOWrapper) -> str:
    out.seek(0)
    return out.read()


def fail(error: Exception) -> None:
    raise error


def test_a_check_that_passes_gives_what_it_found() -> None:
    checks, out = checklist()
    assert checks.run("table", lambda: 7, lambda found: f"{found} rows") == 7
    assert printed(out) == "✓ table      7 rows\n"
    assert checks.exit_code == 0


def test_each_line_of_an_error_has_a_cross() -> None:
    checks, out = checklist()
    assert checks.run("file", lambda: fail(TerminalError(*["one", "two"])), str) is None
    assert printed(out) == "✗ file       one\n✗ file       two\n"


def test_a_fault_is_reported_by_the_first_check_that_meets_it() -> None:
    checks, out = checklist()
    checks.run("identity", lambda: fail(TerminalError("one")), str)
    assert checks.run("checkpoint", lambda: fail(TerminalError("one")), str) is None
    assert printed(out) == "✗ identity   one\n"


def test_transient_errors_count_after_final_ones() -> None:
    checks, _ = checklist()
    checks.run("catalog", lambda: fail(TransientError("away")), str)
    assert checks.exit_code == 75
    checks.run("table", lambda: fail(TerminalError("gone")), str)
    assert checks.exit_code == 65


def test_a_terminal_without_ticks_gets_words() -> None:
    checks, out = checklist("ascii")
    checks.run("table", lambda: 7, str)
    assert printed(out).startswith("ok table")


def test_a_fault_of_our_own_is_not_taken_for_a_failed_check() -> None:
    checks, _ = checklist()
    with pytest.raises(ZeroDivisionError):
        checks.run("table", lambda: fail(ZeroDivisionError()), str)


@pytest.mark.timeout(30)
def test_after_a_place_that_did_not_answer_the_next_is_not_waited_for_as_long() -> None:
    checks, out = checklist(patience_seconds=0.6)
    never = threading.Event()

    def keep_silent() -> None:
        never.wait()

    checks.run("storage", lambda: fail(TransientError("the store does not answer")), str)
    checks.run("sink", keep_silent, str)
    checks.run("catalog", lambda: "lake", str)
    never.set()
    assert "✗ sink       sink could not be checked: no answer within 0.6 seconds; other places" in printed(out)
    assert "✓ catalog    lake" in printed(out)
    assert checks.exit_code == 75
