"""The runbook has a part for all code that raises errors, and each part says whether a retry helps."""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

import pytest

from support.pages.blocks import ROOT

LIBRARY: Final = ROOT / "plugins" / "icefloe"
RUNBOOK: Final = ROOT / "docs" / "runbook.md"
HOLE: Final = "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class RaisedError:
    """A call of a class of errors, with `HOLE` for each value in its words."""

    file: str
    is_transient: bool
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    line: int
    quotations: tuple[str, ...]
    is_retried: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of the page, from one heading of the second level to the next.

    Attributes:
        code: folders and files of the library that the line ``Code:`` names.
    """

    name: str
    code: tuple[str, ...]
    rows: tuple[Row, ...]


def parts_of(page: str) -> list[Part]:
    """The parts that name code."""
    found, line = [], 1
    for text in re.split(r"(?m)^(?=## )", page):
        code = re.search(r"(?m)^Code: (.+)$", text)
        if code is not None:
            named = tuple(re.findall(r"`([\w/]+(?:/|\.py))`", code[1]))
            found.append(Part(name=text.partition("\n")[0], code=named, rows=tuple(rows_of(text, line))))
        line += text.count("\n")
    return found


def rows_of(text: str, first: int) -> Iterator[Row]:
    for number, line in enumerate(text.splitlines(), first):
        cells = line.split(" | ")
        if line.startswith("| ") and len(cells) > 2 and cells[1] != "retried":
            assert cells[1] in ("yes", "no"), f"runbook.md:{number}: write yes or no in the column retried"
            quotations = tuple(re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", cells[0]))
            yield Row(line=number, quotations=quotations, is_retried=cells[1] == "yes")


@cache
def library() -> dict[str, ast.Module]:
    """The source of the library, by path."""
    paths = {path.relative_to(LIBRARY).as_posix(): path for path in sorted(LIBRARY.rglob("*.py"))}
    return {file: ast.parse(path.read_text("utf-8")) for file, path in paths.items()}


@cache
def raised_errors() -> tuple[RaisedError, ...]:
    """Each error that the library raises."""
    trees = library()
    classes = transient_by_name(trees.values())
    return tuple(each for file in trees for each in raised_in(trees[file], file, classes))


def transient_by_name(trees: Iterable[ast.Module]) -> dict[str, bool]:
    """Each class of errors, and whether it is transient."""
    known = {"IcefloeError": False, "TerminalError": False, "TransientError": True}
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    for _ in range(4):  # as deep as the classes derive from each other
        for node in classes:
            bases = [base.id for base in node.bases if isinstance(base, ast.Name) and base.id in known]
            if bases:
                known.setdefault(node.name, known[bases[0]])
    return known


def raised_in(tree: ast.Module, file: str, classes: dict[str, bool]) -> Iterator[RaisedError]:
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and (name := name_of(call.func)) in classes:
            words = HOLE.join(texts_of(call))
            yield RaisedError(file=file, is_transient=classes[name], words=words)


def name_of(function: ast.expr) -> str:
    """The class of ``Class(...)`` and ``Class.of(...)``."""
    owner = function.value if isinstance(function, ast.Attribute) else function
    return owner.id if isinstance(owner, ast.Name) else ""


def texts_of(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else HOLE for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def parts_that_own(file: str, parts: list[Part]) -> list[Part]:
    """The parts that name the file, by the longest of its folders that is named."""
    naming = [(len(code), part) for part in parts for code in part.code if file.startswith(code)]
    longest = max((length for length, _ in naming), default=0)
    return [part for length, part in naming if length == longest]


def own_errors(part: Part) -> list[RaisedError]:
    return [error for error in raised_errors() if parts_that_own(error.file, PARTS) == [part]]


PARTS = parts_of(RUNBOOK.read_text("utf-8"))


def test_each_file_that_raises_an_error_has_one_part_of_the_runbook() -> None:
    owners = {error.file: parts_that_own(error.file, PARTS) for error in raised_errors()}
    strays = {file: [part.name for part in parts] for file, parts in owners.items() if len(parts) != 1}
    assert not strays, f"name the folder of each in one line Code: of docs/runbook.md: {strays}"
    named = [(part, code) for part in PARTS for code in part.code]
    idle = [code for part, code in named if not any(f.startswith(code) and owners[f] == [part] for f in owners)]
    assert not idle, f"docs/runbook.md names code that raises nothing: {idle}"


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_a_part_says_of_its_errors_whether_they_are_retried(part: Part) -> None:
    raised = {error.is_transient for error in own_errors(part)}
    assert {row.is_retried for row in part.rows} == raised, "each answer about retries needs an error and a row"
    for row in part.rows:
        for quotation in row.quotations:
            answers = {error.is_transient for error in raised_errors() if quotation in error.words}
            assert answers in (set(), {True, False}, {row.is_retried}), f"runbook.md:{row.line}: {quotation}"
