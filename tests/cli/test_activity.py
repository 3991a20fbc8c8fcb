import io

from rich.console import Console

from icefloe.cli.run import Activity


def console(*, is_terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=is_terminal, quiet=not is_terminal, width=100)


def text(shown: Console) -> str:
    assert isinstance(shown.file, io.StringIO)
    return shown.file.getvalue()


def test_a_bar_appears_once_it_is_known_how_much_there_is_to_do() -> None:
    shown = console(is_terminal=True)
    activity = Activity(shown)
    with activity.under_way("shuffle_write [1]"):
        before = text(shown)
        activity.report(3, 7)
    assert "shuffle_write [1]" in before
    assert "/7" not in before
    assert "3/7" in text(shown)


def test_each_thing_has_a_bar_of_its_own() -> None:
    shown = console(is_terminal=True)
    activity = Activity(shown)
    with activity.under_way("shuffle_write"):
        activity.report(7, 7)
    shown.file = io.StringIO()
    with activity.under_way("coalesce"):
        pass
    assert "coalesce" in text(shown)
    assert "7/7" not in text(shown)


def test_nothing_is_shown_without_a_terminal() -> None:
    shown = console(is_terminal=False)
    activity = Activity(shown)
    with activity.under_way("shuffle_write"):
        activity.report(3, 7)
    activity.report(4, 7)
    assert text(shown) == ""
