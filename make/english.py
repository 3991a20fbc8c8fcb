"""Checks the English of documentation, errors and names, as far as a program can.

python -m make.english    prints every fault with its place, and ends with 1 if there is one
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["LONGEST_SENTENCE", "faults", "faults_of_tests", "main", "page_faults", "source_faults"]

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCES: Final = ("plugins", "spark_jobs", "dags", "make", "demo")
TESTS: Final = ("tests", "benchmarks")
LONGEST_SENTENCE: Final = 25
"""Words of one sentence; a piece of code, a link and a value that is filled in are one word each."""

_NEVER: Final = re.compile(
    r"\b(stands?|anew|besides?|likewise|whoever|tells?|told|of which|those of|that of"
    r"|(?<!nothing )(?<!something )(?<!anything )(?<!everything )(?<!somebody )else)\b(?!-)",
    re.IGNORECASE,
)
"""Words for which a plainer one exists: is, again, next to, the same, a user, report, otherwise, the noun itself."""
_NEVER_IN_NAMES: Final = re.compile(
    r"_(stands?(?!_in)|anew|beside|likewise|whoever|tells?|told|of_which|(?<=^test_)(?:what|where|how|whether))(_|$)"
)
_CLAUSE: Final = re.compile(r"(What|Where|How|Whether)\b")
_TEXT_WITH_CLAUSE: Final = re.compile(rf'["\']\s*{_CLAUSE.pattern}')
_CODE: Final = re.compile(r"`+[^`]*`+")
_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_MARKER: Final = re.compile(r" *([-*]|\d+\.) +")
_BOLD_HEAD: Final = re.compile(r"^\*\*[^*]+\*\* ?")
_NEXT_SENTENCE: Final = re.compile(r"[.!?][)\"*]* +(?=[A-Z`*\"(\[])")
_END: Final = re.compile(r"[.!?:][)\"*`]*$")
_CLAUSES: Final = re.compile(r"[.:;!?]\s+|\n+")
_PROSE: Final = re.compile(r"(?:[A-Za-z'-]+,? ){3}")
_HOLE: Final = "VALUE"


def main() -> int:
    """Print the faults of this repository."""
    found = list(faults(ROOT))
    for fault in found:
        sys.stderr.write(f"{fault}\n")
    return 1 if found else 0


def faults(root: Path) -> Iterator[str]:
    """One line for each fault below a folder that is laid out like this repository."""
    for page in (*sorted((root / "docs").rglob("*.md")), root / "README.md", root / "CONTRIBUTING.md"):
        yield from _placed(page, root, page_faults(page.read_text("utf-8")))
    for file in (file for source in SOURCES for file in sorted((root / source).rglob("*.py"))):
        yield from _placed(file, root, source_faults(file.read_text("utf-8")))
    for file in (file for folder in TESTS for file in sorted((root / folder).rglob("*.py"))):
        yield from _placed(file, root, faults_of_tests(file.read_text("utf-8")))


def page_faults(text: str) -> Iterator[tuple[int, str]]:
    """The line and the fault of everything that is wrong with a page in Markdown."""
    is_code, above = False, ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            is_code, above = not is_code, ""
        elif is_code or line.startswith(("    ", "#", "[")) or not line.strip():
            above = ""
        elif line.startswith("|"):
            for cell in line.strip("|").split(" | "):
                yield from ((number, fault) for fault in _sentence_faults(_plain(cell)))
            above = ""
        else:
            yield from ((number, fault) for fault in _line_faults(line, above))
            above = line


def source_faults(text: str) -> Iterator[tuple[int, str]]:
    """The line and the fault of each first line of a docstring, and of each text of several words."""
    tree = ast.parse(text)
    yield from _docstring_faults(tree)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for line, said in _texts(tree, docstrings):
        yield from ((line, fault) for fault in _sentence_faults(said, clauses=True))


def faults_of_tests(text: str) -> Iterator[tuple[int, str]]:
    """The line and the fault of each first line of a docstring, and of each name of a test."""
    if _TEXT_WITH_CLAUSE.search(text):  # Trees of all tests would take a second, and next to none has such a text.
        yield from _docstring_faults(ast.parse(text))
    for number, line in enumerate(text.splitlines(), 1):
        name = re.match(r" *def (test_\w+)", line)
        if name and (word := _NEVER_IN_NAMES.search(name[1])):
            yield number, f"{name[1]} has the word {word[1]!r}"


def _docstring_faults(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = (ast.get_docstring(node) or "").partition("\n")[0]
            if _CLAUSE.match(first):
                yield getattr(node, "lineno", 1), f"the docstring begins with a clause: {first}"


def _placed(file: Path, root: Path, found: Iterator[tuple[int, str]]) -> Iterator[str]:
    return (f"{file.relative_to(root)}:{line}: {fault}" for line, fault in found)


def _line_faults(line: str, above: str) -> Iterator[str]:
    is_item = _MARKER.match(line) is not None
    if above and not is_item and not _END.search(_plain(above)):
        yield "the sentence of the line above goes on: write one sentence a line"
    sentence = _BOLD_HEAD.sub("", _plain(_MARKER.sub("", line, count=1) if is_item else line))
    if _NEXT_SENTENCE.search(sentence):
        yield f"several sentences in one line: {sentence[:60]}..."
    yield from _sentence_faults(sentence)


def _sentence_faults(text: str, *, clauses: bool = False) -> Iterator[str]:
    for word in _NEVER.findall(text):
        yield f"the word {word!r} in: {text[:100]}"
    for sentence in (_CLAUSES if clauses else _NEXT_SENTENCE).split(text):
        if (count := len(sentence.split())) > LONGEST_SENTENCE:
            yield f"{count} words in one sentence, {LONGEST_SENTENCE} are enough: {sentence[:60]}..."


def _plain(text: str) -> str:
    """The words of a text in Markdown, with one capital letter for a piece of code."""
    return _LINK.sub(r"\1", _CODE.sub("X", text)).strip()


def _texts(tree: ast.Module, docstrings: set[int]) -> Iterator[tuple[int, str]]:
    """The texts of several words in a module, each as it would be printed."""
    done = set(docstrings)
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr | ast.Constant) and id(node) not in done:
            done.update(id(each) for each in ast.walk(node))
            said = _CODE.sub("X", _said(node))
            if _PROSE.search(said):
                yield node.lineno, said


def _said(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_said(part) for part in parts)
        case _:
            return _HOLE


if __name__ == "__main__":
    sys.exit(main())
