"""A YAML file as plain values, with the line of every key."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from icefloe.pipeline.problems import KeyPath, PipelineFileError, Problem
from icefloe.pipeline.yaml_tree import MAX_VALUES, YamlNode, YamlTreeBuilder

__all__ = ["YamlFile"]

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TEXT: Final[tuple[KeyPath, ...]] = (("catalog",), ("spark", "conf"))
"""The mappings of properties, which are text on the other side: a number stays as it is written."""
_MAX_BYTES: Final = 1 << 20
_UNPRINTABLE: Final = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlFile:
    """The content of a YAML file, with the line of each key.

    Attributes:
        path: the file, as it was named.
        data: dicts with text keys, lists, str, int, float, bool and None; None for an empty file.
        lines: the line of each key and list item, counted from 1.
        problems: faults that do not stop reading, such as a key that is there twice.
    """

    path: str
    data: Any
    lines: Mapping[KeyPath, int]
    problems: tuple[Problem, ...] = ()

    def line_of(self, key_path: KeyPath) -> int:
        """The line of a key, or of the nearest key above it that exists."""
        for length in range(len(key_path), 0, -1):
            line = self.lines.get(key_path[:length])
            if line is not None:
                return line
        return 1


def load_yaml(path: str | Path) -> YamlFile:
    """Reads a YAML 1.2 file.

    Raises:
        PipelineFileError: the file is missing, unreadable, too large, not UTF-8 or not YAML.
    """
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
    """The values and lines of a YAML text; ``path`` names it in errors.

    Raises:
        PipelineFileError: the text is not YAML.
    """
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
    """The value of a node; an aliased value is copied, with the line numbers of the original."""
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
    """Advice on the usual mistakes, judged by the text of the line and never by the parser's message."""
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
