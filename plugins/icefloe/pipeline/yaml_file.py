"""A YAML 1.2 file as plain values, with the line of every key and fault."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

import yaml
from yaml.events import CollectionStartEvent, Event, NodeEvent

from icefloe.errors import TerminalError

__all__ = ["YamlFile"]

KeyPath: TypeAlias = tuple[str | int, ...]
"""The way from the top of the file to a value: ``("sink", "path")``, ``("columns", 0)``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One fault of a pipeline file.

    Attributes:
        line: from 1; 0 for the file as a whole.
        sentence: the fault, the expected value and the way out; without the place.
    """

    line: int
    key: str
    sentence: str

    def at(self, path: str) -> str:
        """The sentence with its place, as compilers write it.

        >>> Problem(line=3, key="changes", sentence="changes must be each or net, not 'all'").at("a.yaml")
        "a.yaml:3: changes must be each or net, not 'all'"
        """
        place = f"{path}:{self.line}" if self.line else path
        return f"{place}: {self.sentence}"


class PipelineFileError(TerminalError):
    """An unusable pipeline file: every fault is one line of the sentence."""

    problems: tuple[Problem, ...]

    @classmethod
    def of(cls, path: str, problems: Iterable[Problem]) -> Self:
        """The error for one or more faults."""
        ordered = in_line_order(problems)
        lines = [problem.at(path) for problem in ordered]
        return cls(*lines, path=path, problems=ordered, line=ordered[0].line, key=ordered[0].key)


def in_line_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """The problems by line, each once, otherwise in order."""
    return tuple(sorted(dict.fromkeys(problems), key=lambda problem: problem.line))


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


MAX_VALUES: Final = 20_000
"""Values that a file may have after its aliases and merged mappings are copied out."""

_MAX_DEPTH: Final = 20
_MAX_SKIPPED_DEPTH: Final = 1_000
_TEXT_TAGS: Final = ("!", "tag:yaml.org,2002:str")


@dataclass(slots=True, kw_only=True)
class YamlNode:
    """A value of the tree, with its line.

    Attributes:
        value: the scalar; None for a mapping or a list.
        text: the scalar as written.
        children: by key or position; None for a scalar.
    """

    line: int
    value: Scalar = None
    text: str = ""
    children: "dict[str | int, YamlNode] | None" = None
    is_list: bool = False


@dataclass(slots=True, kw_only=True)
class YamlTreeBuilder:
    """Builds the tree of one document; ``problems`` collects faults of keys, anchors and tags."""

    problems: list[Problem] = field(default_factory=list)
    _anchors: dict[str, YamlNode] = field(default_factory=dict)
    _merged_keys: int = 0

    def build(self, events: Iterable[Event]) -> YamlNode | None:
        """The root, or None without a document."""
        root: YamlNode | None = None
        stream: Iterator[Event] = iter(events)
        for event in stream:
            if not isinstance(event, yaml.DocumentStartEvent):
                continue
            if root is not None:
                self._report(
                    event, (), "a pipeline file holds one document: remove this second one, which '---' begins"
                )
                break
            root = self._node(next(stream), stream, ())
        return root

    def _node(self, event: Event, stream: Iterator[Event], path: tuple[str | int, ...]) -> YamlNode:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, path)
        node = YamlNode(line=_line(event))
        if isinstance(event, yaml.ScalarEvent):
            node.value, node.text = self._scalar(event, path), event.value
        elif isinstance(event, CollectionStartEvent):
            self._check_tag(event, path)
            self._fill(node, event, stream, path)
        if isinstance(event, NodeEvent) and event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _fill(
        self, node: YamlNode, event: CollectionStartEvent, stream: Iterator[Event], path: tuple[str | int, ...]
    ) -> None:
        node.children = {}
        node.is_list = isinstance(event, yaml.SequenceStartEvent)
        if len(path) >= _MAX_DEPTH:
            sentence = f"{dotted(path[:3])} is nested more than {_MAX_DEPTH} levels deep"
            self._report(event, path[:3], sentence)
            _skip(stream, sentence)
        elif node.is_list:
            for position, item in enumerate(iter(lambda: next(stream), None)):
                if isinstance(item, yaml.SequenceEndEvent):
                    break
                node.children[position] = self._node(item, stream, (*path, position))
        else:
            self._fill_mapping(node, stream, path)

    def _fill_mapping(self, node: YamlNode, stream: Iterator[Event], path: tuple[str | int, ...]) -> None:
        merged: list[YamlNode] = []
        children: dict[str | int, YamlNode] = {}
        while not isinstance(event := next(stream), yaml.MappingEndEvent):
            line = _line(event)
            key = self._key(event, stream, path)
            child = self._node(next(stream), stream, (*path, key))
            if key == "<<" and isinstance(event, yaml.ScalarEvent) and event.implicit[0]:
                merged.append(child)
            elif key in children:
                where = dotted((*path, key))
                first = children[key].line
                self._report(event, (*path, key), f"{where} is in line {first} already: keep one of the two")
            else:
                children[key] = replace(child, line=line)
        # Its own keys win, even if << comes after them.
        node.children = self._merged(merged, path) | children

    def _key(self, event: Event, stream: Iterator[Event], path: tuple[str | int, ...]) -> str:
        if isinstance(event, yaml.ScalarEvent):
            return str(event.value)
        self._report(event, path, "a key must be text: this one is a list, a mapping or an alias")
        self._node(event, stream, (*path, "?"))  # a level more, so that keys inside keys are bounded too
        return "?"

    def _merged(self, nodes: list[YamlNode], path: tuple[str | int, ...]) -> dict[str | int, YamlNode]:
        """The keys of ``<<``; the first mapping of a list wins."""
        found: dict[str | int, YamlNode] = {}
        for node in nodes:
            sources = list((node.children or {}).values()) if node.is_list else [node]
            for source in reversed(sources):
                if source.children is None or source.is_list:
                    sentence = "'<<' must be followed by an alias of a mapping"
                    self.problems.append(Problem(line=node.line, key=dotted(path), sentence=sentence))
                else:
                    self._merged_keys += len(source.children)
                    if self._merged_keys > MAX_VALUES:
                        raise OverflowError(f"aliases blow the file up to more than {MAX_VALUES} values")
                    found |= source.children
        return found

    def _alias(self, event: yaml.AliasEvent, path: tuple[str | int, ...]) -> YamlNode:
        target = self._anchors.get(event.anchor or "")
        line = _line(event)
        if target is None:
            self._report(
                event, path, f"the alias *{event.anchor} has no anchor: write &{event.anchor} at a value above it"
            )
            return YamlNode(line=line)
        return replace(target, line=line)

    def _scalar(self, event: yaml.ScalarEvent, path: tuple[str | int, ...]) -> Scalar:
        if event.tag is None and event.implicit[0]:
            return read_scalar(event.value)
        self._check_tag(event, path)
        return event.value

    def _check_tag(self, event: yaml.ScalarEvent | CollectionStartEvent, path: tuple[str | int, ...]) -> None:
        if event.tag is not None and event.tag not in _TEXT_TAGS:
            self._report(event, path, f"the tag {event.tag} means nothing in a pipeline file: remove it")

    def _report(self, event: Event, path: tuple[str | int, ...], sentence: str) -> None:
        self.problems.append(Problem(line=_line(event), key=dotted(path), sentence=sentence))


def _line(event: Event) -> int:
    return 1 if event.start_mark is None else event.start_mark.line + 1


def _skip(stream: Iterator[Event], sentence: str) -> None:
    depth = 1
    while depth:
        event = next(stream)
        depth += isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent))
        depth -= isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent))
        if depth > _MAX_SKIPPED_DEPTH:
            # For each token the parser looks at every open bracket: 500,000 of them would take it hours.
            raise OverflowError(sentence)


_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TEXT: Final[tuple[KeyPath, ...]] = (("catalog",), ("spark", "conf"))
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
    builder = YamlTreeBuilder()
    lines: dict[KeyPath, int] = {}
    try:
        root = builder.build(yaml.parse(text, Loader=_LOADER))
        value = None if root is None else _plain(root, (), lines)
    except yaml.MarkedYAMLError as cause:
        raise PipelineFileError.of(str(path), [*builder.problems, _syntax_problem(text, cause)]) from cause
    except OverflowError as cause:
        raise _fault(path, 0, str(cause)) from cause
    return YamlFile(path=str(path), data=value, lines=lines, problems=tuple(builder.problems))


def _plain(node: YamlNode, path: KeyPath, lines: dict[KeyPath, int]) -> Any:
    """The value of a node; an aliased value is copied, with the original's line numbers."""
    # Ten aliases of ten aliases of ten ... make a file of some lines billions of values.
    if len(lines) > MAX_VALUES:
        raise OverflowError(f"aliases blow the file up to more than {MAX_VALUES} values")
    if path:
        lines[path] = node.line
    if node.children is None:
        if isinstance(node.value, bool | int | float) and path[:-1] in _TEXT:
            return node.text.lower() if isinstance(node.value, bool) else node.text
        return node.value
    values = {key: _plain(child, (*path, key), lines) for key, child in node.children.items()}
    return list(values.values()) if node.is_list else values


def _syntax_problem(text: str, error: yaml.MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    row, column = (mark.line, mark.column) if mark else (0, 0)
    rows = text.rstrip().split("\n")
    line = rows[row] if row < len(rows) else ""
    sentence = f"not valid YAML: {error.problem or error.context}{_begun(error, row)}"
    hint = _hint(line, column)
    return Problem(line=min(row + 1, len(rows)), key="", sentence=f"{sentence}; {hint}" if hint else sentence)


def _begun(error: yaml.MarkedYAMLError, row: int) -> str:
    if error.context is None or error.context_mark is None or error.context_mark.line == row:
        return ""
    return f" {error.context} that begins in line {error.context_mark.line + 1}"


def _hint(here: str, column: int) -> str:
    """Advice on the usual mistakes, by the text of the line and never by the parser's message."""
    if "\t" in here[: len(here) - len(here.lstrip())]:
        return "YAML is indented with spaces: replace the tab"
    if column and here[column : column + 1] in ("@", "`", "%"):
        return f"put the value that begins with {here[column]} in quotes"
    if "${" in here:
        return 'put a value with ${...} in quotes inside {...} or [...]: {path: "${NAME}/changes"}'
    if here.count(": ") > 1 and "{" not in here:
        return "put a value that contains ': ' in quotes"
    return ""


def _fault(path: str | Path, line: int, sentence: str) -> PipelineFileError:
    return PipelineFileError.of(str(path), [Problem(line=line, key="", sentence=sentence)])
