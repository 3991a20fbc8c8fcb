import io

from rich.console import Console

from icefloe.cli.screen import Screen


def screen(*, is_json: bool = False, is_terminal: bool = False) -> tuple[Screen, io.StringIO, io.StringIO]:
    out, err = io.StringIO(), io.StringIO()
    progress = Console(file=err, force_terminal=is_terminal, quiet=is_json or not is_terminal)
    return Screen(output=Console(file=out, width=200), progress=progress, is_json=is_json), out, err


def test_with_json_tables_and_sentences_are_left_out() -> None:
    shown, out, _ = screen(is_json=True)
    shown.say("a sentence")
    shown.facts([("a", "b")])
    shown.table(["a"], [["b"]])
    shown.json({"batch": 0})
    assert out.getvalue() == '{"batch": 0}\n'


def test_text_that_looks_like_markup_is_shown_as_it_is() -> None:
    shown, out, _ = screen()
    shown.say("local[2] [bold]")
    shown.facts([("master", "local[2]")])
    shown.table(["column"], [["[red]"]])
    assert "local[2] [bold]" in out.getvalue()
    assert "master  local[2]" in out.getvalue()
    assert "[red]" in out.getvalue()


def test_progress_is_silent_where_nobody_looks() -> None:
    shown, out, err = screen()
    with shown.under_way("planning"):
        pass
    assert (out.getvalue(), err.getvalue()) == ("", "")


def test_progress_names_what_is_under_way_on_a_terminal() -> None:
    shown, out, err = screen(is_terminal=True)
    with shown.under_way("planning"):
        pass
    assert "planning" in err.getvalue()
    assert out.getvalue() == ""


def test_names_of_others_move_no_cursor_and_begin_no_line() -> None:
    shown, out, err = screen(is_terminal=True)
    name = "a\x1b[2K\nicefloe: verified\u202e"
    with shown.under_way(f"reading {name} [bold]"):
        pass
    shown.say(f"tag {name}")
    shown.facts([(name, name)])
    shown.table(["tag"], [[name]])
    told = r"a\x1b[2K\nicefloe: verified\u202e"
    assert [line.rstrip() for line in out.getvalue().splitlines()] == [f"tag {told}", f"{told}  {told}", "tag", told]
    assert f"reading {told} [bold]" in err.getvalue()


def test_a_cell_shows_all_of_a_row() -> None:
    shown, out, _ = screen()
    shown.table(["row"], [["x" * 1_000]])
    assert out.getvalue().count("x") == 1_000
