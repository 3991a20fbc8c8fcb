"""Errors about a key of the pipeline file, with the line of that key; see `about_key`."""

from collections.abc import Iterator
from contextlib import contextmanager

from icefloe.errors import TerminalError
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.problems import Problem

__all__ = ["with_lines"]


@contextmanager
def with_lines(pipeline: Pipeline) -> Iterator[None]:
    """Puts file and line before the sentence of an error inside, if its reason is a key of the pipeline.

    Raises:
        TerminalError: of the class that was raised, with the facts ``path`` and ``line`` too.
    """
    try:
        yield
    except TerminalError as error:
        if error.key is None or error.line is not None:
            raise
        problem = Problem(
            line=pipeline.file.line_of(tuple(error.key.split("."))), key=error.key, sentence=error.sentence
        )
        raise error.restated(problem.at(pipeline.path), path=pipeline.path, line=problem.line) from error
