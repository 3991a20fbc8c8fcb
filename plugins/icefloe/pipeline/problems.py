"""Faults of a pipeline file, each a place and a sentence, and the error that carries them all."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

from icefloe.errors import TerminalError

KeyPath: TypeAlias = tuple[str | int, ...]
"""The way from the top of the file to a value: ``("sink", "path")``, ``("columns", 0)``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One fault of a pipeline file.

    Attributes:
        line: its line, counted from 1; 0 for the file as a whole.
        key: the dotted key; empty if the fault is not at a key.
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
    """A pipeline file that cannot be used; every fault is one line of the sentence.

    Facts: ``path``, ``problems`` (in line order), and ``line`` and ``key`` of the first one.
    """

    path: str
    line: int
    key: str
    problems: tuple[Problem, ...]

    @classmethod
    def of(cls, path: str, problems: Iterable[Problem]) -> Self:
        """The error for the faults of one file, at least one."""
        ordered = in_line_order(problems)
        lines = [problem.at(path) for problem in ordered]
        return cls(*lines, path=path, problems=ordered, line=ordered[0].line, key=ordered[0].key)


def in_line_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """The problems by line, each once; problems of one line keep their order."""
    return tuple(sorted(dict.fromkeys(problems), key=lambda problem: problem.line))


def dotted(key_path: Sequence[str | int]) -> str:
    """A key path for people.

    >>> dotted(("sink", "path")), dotted(("columns", 0)), dotted(())
    ('sink.path', 'columns[0]', '')
    """
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key_path)
    return text.removeprefix(".")
