"""Every sentence that an error of icefloe can say, read from the source."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from support.pages.blocks import ROOT

__all__ = ["FAULTS", "HOLE", "ErrorSentence", "all_sentences", "unreadable"]

LIBRARY: Final = ROOT / "plugins" / "icefloe"
HOLE: Final = "…"
FAMILIES: Final = ("TerminalError", "TransientError")
FAULTS: Final = "storage/store_errors.py"
"""Decides on the family of its errors as it runs."""
RELAYS: Final = frozenset(
    {
        "batch/context/job_error.py",  # of a Spark application, raised by whoever started it
        "cli/sweep.py",  # of places that it could not judge or delete
        "cli/verify.py",  # what verify found to differ
        "orchestration/dags/dag_factory.py",  # of a pipeline file
        "orchestration/tasks/snapshot_sensor.py",  # of the trigger
        "redacted_output.py",  # of any error, without what was hidden after it was made
        "pipeline/unbuilt_keys.py",  # of keys, as of a pipeline file
        "pipeline/error_lines.py",  # of any error about a key
        "pipeline/problems.py",  # lines of a pipeline file
    }
)
"""Files that hand on what others said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorSentence:
    """The sentence of one place in the source, with `HOLE` for what is filled in."""

    place: str
    kind: str
    text: str
    is_transient: bool

    def __str__(self) -> str:
        return self.place


@cache
def all_sentences() -> tuple[ErrorSentence, ...]:
    """The sentences of the whole library."""
    return tuple(found for path in _sources() for found in _sentences(path) if found.text)


def unreadable() -> list[str]:
    """Places whose sentence cannot be read from the source."""
    found = [each for path in _sources() if _name_of(path) not in RELAYS for each in _sentences(path)]
    return [each.place for each in found if not each.text.replace(HOLE, "").strip()]


def _sources() -> list[Path]:
    """All files of the library."""
    return sorted(LIBRARY.rglob("*.py"))


def _name_of(path: Path) -> str:
    """Name of a file of the library, from its root."""
    return str(path.relative_to(LIBRARY))


@cache
def _families() -> Mapping[str, str]:
    """The family of each class of errors."""
    found = {family: family for family in FAMILIES} | {"IcefloeError": "TerminalError"}
    classes = [node for path in _sources() for node in ast.walk(_tree(path)) if isinstance(node, ast.ClassDef)]
    for _ in range(len(FAMILIES) + 2):  # as deep as the classes derive from each other
        for node in classes:
            bases = [base.id for base in node.bases if isinstance(base, ast.Name) and base.id in found]
            if bases:
                found.setdefault(node.name, found[bases[0]])
    return found


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _sentences(path: Path) -> Iterator[ErrorSentence]:
    for scope in ast.walk(_tree(path)):
        if isinstance(scope, ast.FunctionDef):
            yield from _made_in(scope, path)


def _made_in(scope: ast.FunctionDef, path: Path) -> Iterator[ErrorSentence]:
    for call in _own_calls(scope):
        kind = _kind(call, scope, path)
        if kind is not None:
            for text in _texts(call.args[0], scope, path):
                place = f"{_name_of(path)}:{call.lineno}"
                is_transient = _families()[kind] == "TransientError"
                yield ErrorSentence(place=place, kind=kind, text=text, is_transient=is_transient)


def _own_calls(scope: ast.FunctionDef) -> list[ast.Call]:
    inner = {id(n) for f in ast.walk(scope) if isinstance(f, ast.FunctionDef) and f is not scope for n in ast.walk(f)}
    return [node for node in ast.walk(scope) if isinstance(node, ast.Call) and node.args and id(node) not in inner]


def _kind(call: ast.Call, scope: ast.FunctionDef, path: Path) -> str | None:
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "restated":
        name = _class_of(call.func.value, scope) or "cls"
    if name == "cls":
        owners = [n for n in ast.walk(_tree(path)) if isinstance(n, ast.ClassDef) and call in ast.walk(n)]
        name = owners[-1].name if owners else ""
    if name == "kind" and _name_of(path) == FAULTS:
        return "TransientError"
    return name if name in _families() else None


def _class_of(error: ast.expr, scope: ast.FunctionDef) -> str:
    """The class of a caught error, an argument or an annotated variable; empty for ``self``."""
    name = error.id if isinstance(error, ast.Name) else ""
    caught = [n.type for n in ast.walk(scope) if isinstance(n, ast.ExceptHandler) and n.name == name]
    given = [argument.annotation for argument in scope.args.args if argument.arg == name]
    made = [n.annotation for n in ast.walk(scope) if isinstance(n, ast.AnnAssign) and _assigns(n, name)]
    return next((kind.id for kind in (*caught, *given, *made) if isinstance(kind, ast.Name)), "")


def _texts(node: ast.expr, scope: ast.FunctionDef, path: Path) -> list[str]:
    """The texts of an expression; a name is looked up in its function, a function in its module."""
    match node:
        case ast.Name(id=name):
            given = [n.value for n in ast.walk(scope) if isinstance(n, ast.Assign) and _assigns(n, name)]
            return [text for value in given for text in _texts(value, scope, path)] or [HOLE]
        case ast.Call(func=ast.Name(id=name)):
            made = [f for f in ast.walk(_tree(path)) if isinstance(f, ast.FunctionDef) and f.name == name]
            returned = [(f, n.value) for f in made for n in ast.walk(f) if isinstance(n, ast.Return) and n.value]
            return [text for function, value in returned for text in _texts(value, function, path)] or [HOLE]
        case _:
            return [_text(node)]


def _assigns(node: ast.Assign | ast.AnnAssign, name: str) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)


def _text(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part) for part in parts)
        case ast.BinOp(left=left, right=right):
            return _text(left) + _text(right)
        case _:
            return HOLE
