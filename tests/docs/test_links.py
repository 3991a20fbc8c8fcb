import re
from functools import cache
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from support.pages.blocks import ROOT, pages


def links() -> list[tuple[Path, str]]:
    """The page and the target of every link that stays in the repository."""
    found = []
    for page in pages():
        tokens = [child for token in MarkdownIt("commonmark").parse(page.read_text()) for child in token.children or ()]
        targets = [token.attrs.get("href") or token.attrs.get("src") for token in tokens]
        targets += re.findall(r"\]\(([^)\s]+)\)", "\n".join(rows(page)))
        found += [(page, str(target)) for target in targets if target and "://" not in str(target)]
    return sorted(set(found))


def rows(page: Path) -> list[str]:
    """The rows of tables, which CommonMark does not know."""
    return [line for line in page.read_text().splitlines() if line.startswith("|")]


@cache
def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    ("page", "target"), [pytest.param(*link, id=f"{link[0].relative_to(ROOT)} {link[1]}") for link in links()]
)
def test_a_link_leads_somewhere(page: Path, target: str) -> None:
    path, _, anchor = target.partition("#")
    there = (page.parent / path).resolve() if path else page
    assert there.exists()
    assert not anchor or anchor in anchors(there)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_tests_that_a_page_names_exist(page: Path) -> None:
    named = re.findall(r"(?<![\w/])([a-z0-9_]+(?:/[a-z0-9_]+)*/test_\w+)", page.read_text())
    found = {name: list((ROOT / "tests").glob(f"{name.removeprefix('tests/').rstrip('_')}*.py")) for name in named}
    assert [name for name in named if not found[name]] == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_functions_of_tests_that_a_page_names_exist(page: Path) -> None:
    named = re.findall(r"([a-z0-9_]+(?:/[a-z0-9_]+)*/test_\w+)::(test_\w+)", page.read_text())
    sources = {file: (ROOT / "tests" / f"{file}.py").read_text() for file, _ in named}
    assert [f"{file}::{name}" for file, name in named if f"def {name}(" not in sources[file]] == []
