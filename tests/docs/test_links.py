import re
from functools import cache
from pathlib import Path

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


def test_every_link_leads_somewhere() -> None:
    broken = [f"{page.relative_to(ROOT)} {target}" for page, target in links() if not leads_somewhere(page, target)]
    assert not broken, broken


def leads_somewhere(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    there = (page.parent / path).resolve() if path else page
    return there.exists() and (not anchor or anchor in anchors(there))


def test_tests_that_a_page_names_exist() -> None:
    named = {
        (page.name, name)
        for page in pages()
        for name in re.findall(r"(?<![\w/])([a-z0-9_]+(?:/[a-z0-9_]+)*/test_\w+)", page.read_text())
    }
    found = {name: list((ROOT / "tests").glob(f"{name.removeprefix('tests/').rstrip('_')}*.py")) for _, name in named}
    gone = [(page, name) for page, name in sorted(named) if not found[name]]
    assert not gone, gone


def test_pages_that_the_source_names_exist() -> None:
    sources = [file for folder in ("plugins", "make", "demo", "dags") for file in (ROOT / folder).rglob("*.py")]
    named = {(file.name, page) for file in sources for page in re.findall(r"docs/[\w/]+\.md", file.read_text("utf-8"))}
    assert named
    gone = [(file, page) for file, page in sorted(named) if not (ROOT / page).is_file()]
    assert not gone, gone


PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
FUNCTION = re.compile(r"`((?:[a-z0-9_]+/)*test_\w+(?:\.py)?)::(test_\w+)`|`::(test_\w+)`")
FILE = re.compile(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`|`::(test_\w+)`")


def test_functions_of_tests_that_a_page_names_exist() -> None:
    named: list[tuple[str, str]] = []
    for page in pages():
        for path, name, further in FUNCTION.findall(page.read_text(encoding="utf-8")):
            # `::name` is one of the file before.
            named.append((path.removeprefix("tests/").removesuffix(".py") or named[-1][0], name or further))
    assert len(named) > 50
    sources = {file: (ROOT / "tests" / f"{file}.py").read_text() for file, _ in named}
    assert [each for each in named if f"def {each[1]}(" not in sources[each[0]]] == []


def test_every_row_about_what_stops_somebody_names_a_test() -> None:
    tables = re.findall(r"^\|.*\| test \|\n\|[-|]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    rows = [row for table in tables for row in table.splitlines()]
    assert len(rows) > 20
    assert [row for row in rows if not FILE.search(row)] == []
