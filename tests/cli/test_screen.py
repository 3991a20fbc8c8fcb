"""Terminal, log and checklist of the commands."""

import io
import logging

import pytest
from rich.console import Console

from icefloe.cli.checks import Checklist
from icefloe.cli.run import Activity
from icefloe.cli.screen import Screen, log_to_stderr
from icefloe.errors import TerminalError, TransientError

FORGED, SHOWN = "a\x1b[2K\nicefloe: verified\u202e", r"a\x1b[2K\nicefloe: verified\u202e"


def screen(*, is_json: bool = False, is_terminal: bool = False) -> tuple[Screen, io.StringIO, io.StringIO]:
    out, err = io.StringIO(), io.StringIO()
    progress = Console(file=err, force_terminal=is_terminal, quiet=is_json or not is_terminal)
    return Screen(output=Console(file=out, width=200), progress=progress, is_json=is_json), out, err


def test_with_json_tables_and_sentences_are_left_out() -> None:
    shown, out, _ = screen(is_json=True)
    shown.say("a sentence")
    shown.facts({"a": "b", "notes": ["c"]})
    shown.table([{"a": "b"}], ["a"])
    shown.json({"batch": 0})
    assert out.getvalue() == '{"batch": 0}\n'


@pytest.mark.parametrize(("name", "told"), [("local[2] [bold]", "local[2] [bold]"), (FORGED, SHOWN)])
def test_markup_and_control_characters_of_others_are_text(name: str, told: str) -> None:
    shown, out, err = screen(is_terminal=True)
    with shown.under_way(f"reading {name} [bold]"):
        pass
    shown.say(f"tag {name}")
    shown.facts({name: name})
    shown.table([{"tag": name}], ["tag"])
    assert [line.rstrip() for line in out.getvalue().splitlines()] == [f"tag {told}", f"{told}  {told}", "tag", told]
    assert f"reading {told} [bold]" in err.getvalue()


def test_progress_is_silent_if_nobody_looks() -> None:
    shown, out, err = screen()
    activity = Activity(Console(file=err, quiet=True))
    with shown.under_way("planning"), activity, activity.under_way("shuffle_write"):
        activity.report(3, 7)
    assert (out.getvalue(), err.getvalue()) == ("", "")


def test_each_thing_has_a_bar_of_its_own_once_it_is_known_how_much_there_is_to_do() -> None:
    first, second = io.StringIO(), io.StringIO()
    shown = Console(file=first, force_terminal=True, width=100)
    with Activity(shown) as activity:
        with activity.under_way("shuffle_write [1]"):
            activity.refresh()
            before = first.getvalue()
            activity.report(7, 7)
            activity.refresh()
        assert ("shuffle_write [1]" in before, "/7" in before, "7/7" in first.getvalue()) == (True, False, True)
        shown.file = second
        with activity.under_way("coalesce"):
            activity.refresh()
    assert ("coalesce" in second.getvalue(), "7/7" in second.getvalue()) == (True, False)


def test_a_cell_shows_all_of_a_row() -> None:
    shown, out, _ = screen()
    shown.table([{"row": "x" * 1_000}], ["row"])
    assert out.getvalue().count("x") == 1_000


def test_the_log_has_warnings_and_if_it_is_verbose_every_decision(capsys: pytest.CaptureFixture[str]) -> None:
    library, logger = logging.getLogger("icefloe"), logging.getLogger("icefloe.somewhere")
    before = (library.level, library.propagate, list(library.handlers))
    with log_to_stderr(is_verbose=False):
        logger.warning("the recorded value wins")
        logger.info("a decision")
    assert capsys.readouterr().err == "icefloe: the recorded value wins\n"

    def decide() -> None:
        logger.info("a decision")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), log_to_stderr(is_verbose=True):
        decide()
    assert capsys.readouterr().err.endswith(" icefloe.somewhere: a decision\n")
    assert (library.level, library.propagate, list(library.handlers)) == before


def checklist(encoding: str = "utf-8") -> tuple[Checklist, io.TextIOWrapper]:
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True)
    return Checklist(Screen(output=Console(file=out, width=200), progress=Console(quiet=True))), out


def printed(out: io.TextIOWrapper) -> list[str]:
    out.seek(0)
    return out.read().splitlines()


def fail(error: Exception) -> None:
    raise error


def test_a_check_says_what_it_found_or_each_fault_once() -> None:
    checks, out = checklist()
    assert checks.run("table", lambda: 7, lambda found: f"{found} rows") == 7
    assert checks.exit_code == 0
    checks.run("catalog", lambda: fail(TransientError("away")), str)
    assert checks.exit_code == 75
    assert checks.run("file", lambda: fail(TerminalError(*["one", "two"])), str) is None
    assert checks.run("checkpoint", lambda: fail(TransientError("away")), str) is None
    assert checks.exit_code == 65
    assert printed(out) == ["✓ table      7 rows", "✗ catalog    away", "✗ file       one", "✗ file       two"]
    with pytest.raises(ZeroDivisionError):
        checks.run("ours", lambda: fail(ZeroDivisionError()), str)


def test_a_terminal_without_ticks_gets_words() -> None:
    checks, out = checklist("ascii")
    checks.run("table", lambda: 7, str)
    assert printed(out)[0].startswith("ok table")
