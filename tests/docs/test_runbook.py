"""The runbook has a part for all code that raises errors, and each part says whether a retry helps."""

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import pytest

from support.pages.blocks import ROOT

LIBRARY: Final = ROOT / "plugins" / "icefloe"
RUNBOOK: Final = ROOT / "docs" / "runbook.md"
HOLE: Final = "…"
MOST_OUTDATED: Final = 0.3
"""Of the quotations of a part: sentences may change without an edit of the page, until search no longer finds them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaisedError:
    """A call of a class of errors, with `HOLE` for each value in its words."""

    file: str
    line: int
    is_transient: bool
    words: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


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
            yield RaisedError(file=file, line=call.lineno, is_transient=classes[name], words=words)


@cache
def texts_of_library() -> list[str]:
    return [text for tree in library().values() for text in texts_of(tree)]


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


def faults_of_code(parts: list[Part], errors: Iterable[RaisedError]) -> list[str]:
    """One line for each file that no part or several parts name, and for each name without an error."""
    files = sorted({error.file for error in errors})
    owners = {file: parts_that_own(file, parts) for file in files}
    orphans = [f"no part of docs/runbook.md names {f}: add its folder to a Code: line" for f in files if not owners[f]]
    shared = [f"{[p.name for p in owners[f]]} of docs/runbook.md name {f}" for f in files if len(owners[f]) > 1]
    idle = [
        f"{part.name} of docs/runbook.md names {code}, which raises nothing"
        for part in parts
        for code in part.code
        if not any(file.startswith(code) and owners[file] == [part] for file in files)
    ]
    return [*orphans, *shared, *idle]


def faults_of_families(part: Part, errors: Sequence[RaisedError], every: Sequence[RaisedError]) -> list[str]:
    """One line for each answer about retries that is missing, or that no error of the part's code gives."""
    raised = {error.is_transient for error in errors}
    answered = {row.is_retried for row in part.rows}
    say = {True: "yes", False: "no"}
    missing = [f"{part.name} has no row that is retried: {say[each]}" for each in sorted(raised - answered)]
    astray = [f"{part.name} has rows that are retried: {say[each]}" for each in sorted(answered - raised)]
    quoted = [
        f"runbook.md:{row.line} says otherwise of retries than {error}: {quotation}"
        for row in part.rows
        for quotation in row.quotations
        if (found := [error for error in every if quotation in error.words])
        for error in found[:1]
        if all(each.is_transient != row.is_retried for each in found)
    ]
    return [*missing, *astray, *quoted]


def own_errors(part: Part) -> list[RaisedError]:
    return [error for error in raised_errors() if parts_that_own(error.file, PARTS) == [part]]


PARTS = parts_of(RUNBOOK.read_text("utf-8"))


def test_each_file_that_raises_an_error_has_one_part_of_the_runbook() -> None:
    faults = faults_of_code(PARTS, raised_errors())
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_a_part_says_of_its_errors_whether_they_are_retried(part: Part) -> None:
    faults = faults_of_families(part, own_errors(part), raised_errors())
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_most_words_that_a_part_quotes_are_said_by_its_errors(part: Part) -> None:
    quotations = [quotation for row in part.rows for quotation in row.quotations]
    said = texts_of_library()
    outdated = [quotation for quotation in quotations if not any(quotation in words for words in said)]
    assert len(outdated) <= MOST_OUTDATED * len(quotations), f"quote today's words: {outdated}"


PAGE = """# Runbook

## A store
Code: `storage/`, `base.py`.

| words | retried | way out |
|---|---|---|
| *is gone* | no | restore it |
| *is busy* | yes | wait |
"""
ERRORS = (
    RaisedError(file="storage/keys.py", line=1, is_transient=False, words="… is gone"),
    RaisedError(file="base.py", line=1, is_transient=True, words="… is busy"),
)


def test_a_folder_that_no_part_names_is_a_fault() -> None:
    error = RaisedError(file="elsewhere/new.py", line=1, is_transient=False, words="")
    assert faults_of_code(parts_of(PAGE), ERRORS) == []
    assert faults_of_code(parts_of(PAGE), (*ERRORS, error)) == [
        "no part of docs/runbook.md names elsewhere/new.py: add its folder to a Code: line"
    ]


def test_a_folder_of_two_parts_and_a_folder_without_errors_are_faults() -> None:
    twice = parts_of(PAGE + "\n## Another\nCode: `storage/`, `idle/`.\n")
    assert [fault.split(", which")[0] for fault in faults_of_code(twice, ERRORS)] == [
        "['## A store', '## Another'] of docs/runbook.md name storage/keys.py",
        "## A store of docs/runbook.md names storage/",
        "## Another of docs/runbook.md names storage/",
        "## Another of docs/runbook.md names idle/",
    ]


def test_an_answer_about_retries_that_the_errors_contradict_is_a_fault() -> None:
    [part] = parts_of(PAGE)
    assert faults_of_families(part, ERRORS, ERRORS) == []
    [swapped] = parts_of(PAGE.replace("| no |", "| ? |").replace("| yes |", "| no |").replace("| ? |", "| yes |"))
    assert len(faults_of_families(swapped, ERRORS, ERRORS)) == 2
    assert faults_of_families(part, ERRORS[:1], ERRORS) == ["## A store has rows that are retried: yes"]
    [silent] = parts_of(PAGE.replace("| yes |", "| no |").replace("*is busy*", "busy"))
    assert faults_of_families(silent, ERRORS, ERRORS) == ["## A store has no row that is retried: yes"]
