"""One way in which icefloe can be broken: a function, and what is done to it."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeAlias

__all__ = ["Kind", "Mutation", "StaleMutationError"]

_OTHERWISE: Final[Mapping[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_BLOCKS: Final = ("body", "orelse", "finalbody")
_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_Place: TypeAlias = tuple[ast.AST, str, int | None]
"""A node, and the field of it that is broken, with the position if the field is a list."""


class StaleMutationError(ValueError):
    """The library has no such function, or several, or too little in it that could be broken in this way."""


class Kind(StrEnum):
    """Ways to break a function at one of its places."""

    NEVER = "a condition never holds"
    ALWAYS = "a condition always holds"
    OTHERWISE = "a comparison decides the other way, or takes in what it left out"
    WITHOUT = "a statement is left out"
    FIRST = "an operation with two sides, or a choice, is its first side"
    SECOND = "the same is its second side"
    NONE = "an expression is None"
    ZERO = "an expression is 0"


_CONSTANTS: Final = {Kind.NONE: None, Kind.ZERO: 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """A change of the library that some test must notice.

    It names no text of the library, so that whoever writes a function in other words need not write this anew.

    Attributes:
        name: what is wrong then, a sentence.
        function: its name, after that of its class; ``module:name`` if others have the same.
        kind: what is done to it.
        place: of the places where that can be done, counted from 0 in the order of the source.
        suite: what pytest is asked to run; random histories unless those cannot show it.
    """

    name: str
    function: str
    kind: Kind
    place: int = 0
    suite: tuple[str, ...] = ("tests/histories",)

    def broken(self, sources: Mapping[str, str]) -> tuple[str, str]:
        """The file of the function, and its text with the mutation.

        Args:
            sources: texts of the library's files by path.
        """
        module, _, name = self.function.rpartition(":")
        found = []
        for path, source in sources.items():
            # Parsing all files takes seconds.
            if module in ("", Path(path).stem) and f"def {name.rpartition('.')[2]}(" in source:
                tree = ast.parse(source)
                found += [(path, tree, function) for own, function in _functions(tree) if own == name]
        if len(found) != 1:
            raise StaleMutationError(f"{self.name!r}: the library has {len(found)} functions {self.function}")
        [(path, tree, function)] = found
        places = list(_places(function, self.kind))
        if self.place >= len(places):
            raise StaleMutationError(f"{self.name!r}: {self.function} has {len(places)} places where {self.kind}")
        _break(places[self.place], self.kind)
        return path, ast.unparse(ast.fix_missing_locations(tree))


def _functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, _Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _Function):
            yield f"{prefix}{child.name}", child
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes in the order of the source."""
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _nodes(child)


def _places(function: _Function, kind: Kind) -> Iterator[_Place]:
    for node in _nodes(function):
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                yield from ((node, name, place) for place, each in enumerate(value) if _fits(node, name, each, kind))
            elif _fits(node, name, value, kind):
                yield node, name, None


def _fits(node: ast.AST, field: str, value: object, kind: Kind) -> bool:
    """True if the value of a field can be broken so."""
    if kind in (Kind.NEVER, Kind.ALWAYS):
        is_part = isinstance(node, ast.BoolOp) and field == "values"
        return isinstance(value, ast.expr) and (field in ("test", "ifs") or is_part)
    if kind is Kind.OTHERWISE:
        return type(value) in _OTHERWISE
    if kind is Kind.WITHOUT:
        is_docstring = isinstance(value, ast.Expr) and isinstance(value.value, ast.Constant)
        return isinstance(value, ast.stmt) and not isinstance(value, ast.Return) and not is_docstring
    if kind in (Kind.FIRST, Kind.SECOND):
        return isinstance(value, ast.BinOp | ast.BoolOp | ast.IfExp)
    is_target = isinstance(getattr(value, "ctx", None), ast.Store)
    return isinstance(value, ast.expr) and not isinstance(value, ast.Constant) and not is_target


def _break(place: _Place, kind: Kind) -> None:
    node, field, position = place
    value = getattr(node, field) if position is None else getattr(node, field)[position]
    changed = _changed(value, kind)
    if position is None:
        setattr(node, field, changed)
    else:
        getattr(node, field)[position] = changed


def _changed(value: ast.AST, kind: Kind) -> ast.AST:
    if kind in (Kind.NEVER, Kind.ALWAYS):
        return ast.Constant(value=kind is Kind.ALWAYS)
    if kind is Kind.WITHOUT:
        return ast.Pass()
    if isinstance(value, ast.cmpop):
        return _OTHERWISE[type(value)]()
    if kind in _CONSTANTS:
        return ast.Constant(value=_CONSTANTS[kind])
    is_first = kind is Kind.FIRST
    if isinstance(value, ast.BinOp):
        return value.left if is_first else value.right
    if isinstance(value, ast.IfExp):
        return value.body if is_first else value.orelse
    if isinstance(value, ast.BoolOp):
        return value.values[0] if is_first else value.values[-1]
    raise TypeError(type(value))
