"""Plain English: the rules that a test can hold."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
BEGINS_WITH_A_CLAUSE = re.compile(r"(What|Where|How|Whether)\b")
OLD_WORDS = re.compile(r"\b(anew|stands in|stand in|beside)\b")


def first_lines(file: Path) -> Iterator[tuple[int, str]]:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, documented) and (text := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), text.partition("\n")[0]


def test_the_first_line_of_a_docstring_says_what_the_thing_is_or_does() -> None:
    assert [
        f"{file.relative_to(ROOT)}:{line} {text}"
        for file in sorted((ROOT / "plugins").rglob("*.py"))
        for line, text in first_lines(file)
        if BEGINS_WITH_A_CLAUSE.match(text)
    ] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_says_where_things_are_in_plain_words(page: Path) -> None:
    text = re.sub(r"`[^`\n]*`|^(    |\|).*$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert OLD_WORDS.findall(text) == []
