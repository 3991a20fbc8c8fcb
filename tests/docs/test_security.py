"""docs/security.md: every test that it names is there."""

import re

import pytest

from support.pages.blocks import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and "tests/" in line]
FILE = re.compile(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`|`::(test_\w+)`")


def named() -> list[tuple[str, str | None]]:
    """Each file with a test in it; `::name` is one of the file before."""
    found: list[tuple[str, str | None]] = []
    for row in ROWS:
        for path, name, further in FILE.findall(row):
            found.append((path or found[-1][0], name or further or None))
    return found


@pytest.mark.parametrize(("path", "name"), named())
def test_a_test_that_the_page_names_is_there(path: str, name: str | None) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    assert re.search(rf"^def {name or 'test_'}\b" if name else r"^def test_", text, re.MULTILINE)


def test_every_row_about_what_stops_somebody_names_a_test() -> None:
    tables = re.findall(r"^\|.*\| test \|\n\|[-|]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    rows = [row for table in tables for row in table.splitlines()]
    assert len(rows) > 20
    assert [row for row in rows if not FILE.search(row)] == []
