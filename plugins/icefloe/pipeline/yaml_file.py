"""A YAML 1.2 file as plain values, with the line of every key and fault."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias

import yaml

from icefloe.errors import TerminalError

__all__ = ["YamlFile"]

KeyPath: TypeAlias = tuple[str | int, ...]
"""The way from the top of the file to a value: ``("sink", "path")``, ``("columns", 0)``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One fault of a pipeline file."""

    line: int  # from 1; 0 for the file as a whole
    key: str
    sentence: str  # the fault, the expected value and the way out; without the place

    def at(self, path: str) -> str:
        """The sentence with its place, as compilers write it.

        >>> Problem(line=3, key="changes", sentence="changes must be each or net, not 'all'").at("a.yaml")
        "a.yaml:3: changes must be each or net, not 'all'"
        """
        place = f"{path}:{self.line}" if self.line else path
        return f"{place}: {self.sentence}"


def file_error(path: str, problems: Iterable[Problem]) -> TerminalError:
    """The error of an unusable pipeline file: each fault once, in the order of the lines."""
    ordered = sorted(dict.fromkeys(problems), key=lambda problem: problem.line)
    first, lines = ordered[0], [problem.at(path) for problem in ordered]
    return TerminalError(*lines, path=path, line=first.line, key=first.key)


def dotted(key_path: Sequence[str | int]) -> str:
    """A key path for people.

    >>> dotted(("sink", "path")), dotted(("columns", 0)), dotted(())
    ('sink.path', 'columns[0]', '')
    """
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key_path)
    return text.removeprefix(".")


Scalar: TypeAlias = str | int | float | bool | None

_CONSTANTS: Final[dict[str, bool | None]] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,40}|0o[0-7]{1,40}|0x[0-9A-Fa-f]{1,40}")
_NUMBER: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


def read_scalar(text: str) -> Scalar:
    """The value of an unquoted scalar.

    Infinities, NaN, dates and sexagesimal numbers stay text: no key takes them.

    >>> [read_scalar(text) for text in ("off", "true", "~", "017", "0x10", "1e3", "12:30", "64MiB")]
    ['off', True, None, 17, 16, 1000.0, '12:30', '64MiB']
    """
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    if _NUMBER.fullmatch(text) and math.isfinite(number := float(text)):
        return number
    return text


_MAX_VALUES: Final = 20_000
_MAX_DEPTH: Final = 20
_UNQUOTED: Final = "unquoted"
_TAGS: Final = (_UNQUOTED, "tag:yaml.org,2002:str", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Marks unquoted scalars for `read_scalar`: PyYAML would read them as YAML 1.1 does."""

    yaml_implicit_resolvers: ClassVar[dict[None, list[tuple[str, re.Pattern[str]]]]] = {
        None: [(_UNQUOTED, re.compile(""))]
    }


_TEXT: Final[tuple[KeyPath, ...]] = (("catalog",), ("spark", "conf"), ("sink", "catalog"))
"""The mappings of properties, which are text on the other side: a number stays as it is written."""
_MAX_BYTES: Final = 1 << 20
_UNPRINTABLE: Final = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlFile:
    """The content of a YAML file, with the line of each key.

    Attributes:
        data: dicts with text keys, lists, str, int, float, bool and None; None for an empty file.
        lines: of each key and list item, from 1.
        problems: faults that do not stop reading, such as a repeated key.
    """

    path: str
    data: Any
    lines: Mapping[KeyPath, int]
    problems: tuple[Problem, ...] = ()

    def line_of(self, key_path: KeyPath) -> int:
        """The line of a key, or of the nearest key above it."""
        for length in range(len(key_path), 0, -1):
            line = self.lines.get(key_path[:length])
            if line is not None:
                return line
        return 1


def load_yaml(path: str | Path) -> YamlFile:
    """Reads a YAML 1.2 file."""
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(_MAX_BYTES + 1)
    except OSError as cause:
        reason = cause.strerror or type(cause).__name__
        raise _fault(
            path, 0, f"the pipeline file cannot be read: {reason}; check the path and its permissions"
        ) from cause
    if len(data) > _MAX_BYTES:
        raise _fault(path, 0, "a pipeline file holds at most 1 MiB: this is not one")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        line = data.count(b"\n", 0, cause.start) + 1
        raise _fault(path, line, "the file is not UTF-8 text: save it as UTF-8") from cause
    return parse_yaml(text, path=path)


def parse_yaml(text: str, *, path: str | Path) -> YamlFile:
    """Values and lines of a YAML text; ``path`` names it in errors."""
    unprintable = _UNPRINTABLE.search(text)
    if unprintable:
        line = text.count("\n", 0, unprintable.start()) + 1
        raise _fault(path, line, f"the character U+{ord(unprintable[0]):04X} is not allowed in YAML: remove it")
    reader = _Reader()
    try:
        _check_events(text, path)
        root = yaml.compose(text, Loader=_Loader)
        value = None if root is None else reader.value(root, ())
    except yaml.MarkedYAMLError as cause:
        raise file_error(str(path), [_syntax_problem(text, cause)]) from cause
    return YamlFile(path=str(path), data=value, lines=reader.lines, problems=tuple(reader.problems))


def _check_events(text: str, path: str | Path) -> None:
    # Before anything is composed: for each token the parser looks at every open bracket, and ten aliases of ten aliases
    # of ten ... make a file of some lines billions of values.
    depth = values = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        values += isinstance(event, yaml.NodeEvent)
        if isinstance(event, yaml.AliasEvent):
            raise _fault(path, _line(event), f"the alias *{event.anchor} cannot be used here: write the value again")
        if depth > _MAX_DEPTH:
            raise _fault(path, _line(event), f"the values are nested more than {_MAX_DEPTH} levels deep")
        if values > _MAX_VALUES:
            raise _fault(path, _line(event), f"the file has more than {_MAX_VALUES} values")


@dataclass(slots=True)
class _Reader:
    """Makes values of YAML's nodes, with the lines of keys and items, and collects faults of keys and tags."""

    lines: dict[KeyPath, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def value(self, node: yaml.Node, path: KeyPath) -> Any:
        """The value of a node."""
        if node.tag not in _TAGS:
            self._report(node, path, f"the tag {node.tag} means nothing in a pipeline file: remove it")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            for position, item in enumerate(node.value):
                self.lines[*path, position] = _line(item)
            return [self.value(item, (*path, position)) for position, item in enumerate(node.value)]
        value = read_scalar(node.value) if node.tag == _UNQUOTED else node.value
        if isinstance(value, bool | int | float) and path[:-1] in _TEXT:
            return node.value.lower() if isinstance(value, bool) else node.value
        return value

    def _mapping(self, mapping: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, child in mapping.value:
            place = (*path, key.value) if isinstance(key, yaml.ScalarNode) else path
            if place == path:
                self._report(key, path, "a key must be text: this one is a list or a mapping")
            elif place in self.lines:
                self._report(key, place, f"{dotted(place)} is in line {self.lines[place]} already: keep one of the two")
            else:
                self.lines[place] = _line(key)
                found[key.value] = self.value(child, place)
        return found

    def _report(self, node: yaml.Node, path: KeyPath, sentence: str) -> None:
        self.problems.append(Problem(line=_line(node), key=dotted(path), sentence=sentence))


def _line(found: yaml.Event | yaml.Node) -> int:
    return 1 if found.start_mark is None else int(found.start_mark.line) + 1


def _syntax_problem(text: str, error: yaml.MarkedYAMLError) -> Problem:
    mark, begun, rows = error.problem_mark or error.context_mark, error.context_mark, text.rstrip().count("\n") + 1
    row = mark.line if mark else 0
    context = f" {error.context} that begins in line {begun.line + 1}" if begun and begun.line != row else ""
    sentence = (
        f"not valid YAML: {error.problem or error.context}{context}; indent with spaces, and put a value in quotes "
        "that has ': ' or ${...} in it, or begins with @, ` or %"
    )
    return Problem(line=min(row + 1, rows), key="", sentence=sentence)


def _fault(path: str | Path, line: int, sentence: str) -> TerminalError:
    return file_error(str(path), [Problem(line=line, key="", sentence=sentence)])
