"""The keys of the file that this release does not support yet.

When a feature arrives, its line leaves the table; nothing else changes.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from icefloe.errors import NotBuiltError
from icefloe.pipeline.environment import has_reference
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.problems import Problem, in_line_order
from icefloe.pipeline.sink_types import OUR_SINKS, registered_sinks

__all__ = ["refuse_unbuilt"]


class UnbuiltKeysError(NotBuiltError):
    """A pipeline file asks for what this release does not have; the facts are those of a PipelineFileError."""

    path: str
    line: int
    key: str
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class _Unbuilt:
    """A key of which only some values are built.

    Attributes:
        key: the dotted key.
        is_built: True for a value that is built.
        feature: the feature that the other values need, with its verb.
        advice: the way out.
    """

    key: str
    is_built: Callable[[Any], bool]
    feature: str
    advice: str = "remove the key"


def _one_of(*values: object) -> Callable[[Any], bool]:
    return lambda value: value in values


def _has_sink(name: object) -> bool:
    return name in OUR_SINKS or str(name) in registered_sinks()


_NOT_BUILT: Final = (
    _Unbuilt(
        "sink.type",
        _has_sink,
        "a sink of this name is",
        f"write one of {', '.join(OUR_SINKS)}, or install the package of the sink",
    ),
    _Unbuilt("sink.format", _one_of("parquet"), "a format other than Parquet is", "write parquet"),
)


def refuse_unbuilt(pipeline: Pipeline) -> None:
    """Passes a pipeline that this release can run.

    Values that the environment still hides (the pipeline is not expanded) pass too: call it again after ``expanded``.

    Raises:
        UnbuiltKeysError: naming file, line and key of everything it cannot run.
    """
    problems = in_line_order(unbuilt_problems(pipeline))
    if problems:
        first, lines = problems[0], [problem.at(pipeline.path) for problem in problems]
        raise UnbuiltKeysError(*lines, path=pipeline.path, problems=problems, line=first.line, key=first.key)


def unbuilt_problems(pipeline: Pipeline) -> Iterator[Problem]:
    """One problem for each key whose value needs a later release."""
    for unbuilt in _NOT_BUILT:
        key_path = tuple(unbuilt.key.split("."))
        value: object = pipeline
        written: object = pipeline.file.data
        for part in key_path:
            value, written = getattr(value, part), written.get(part) if isinstance(written, dict) else None
        is_hidden = not pipeline.is_expanded and has_reference(value) and not unbuilt.is_built(None)
        if not is_hidden and not unbuilt.is_built(value):
            sentence = f"{unbuilt.key} is {json.dumps(written)}, but {unbuilt.feature} not built yet: {unbuilt.advice}"
            yield Problem(line=pipeline.file.line_of(key_path), key=unbuilt.key, sentence=sentence)
