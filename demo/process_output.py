"""The output of this process and of the processes that it starts."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

__all__ = ["output_to", "own_output"]

_STANDARD_OUTPUT: Final = 1
_STANDARD_ERROR: Final = 2


def own_output() -> TextIO:
    """Standard output as it is now, which stays the same while `output_to` redirects what others print."""
    return os.fdopen(os.dup(_STANDARD_OUTPUT), "w", encoding="utf-8")


@contextmanager
def output_to(path: Path) -> Iterator[None]:
    """Appends standard output and standard error to a file.

    The descriptors are redirected, not Python's streams: loggers hold on to streams, and Java knows descriptors only.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    saved = {descriptor: os.dup(descriptor) for descriptor in (_STANDARD_OUTPUT, _STANDARD_ERROR)}
    _flush()
    try:
        with path.open("ab") as file:
            for descriptor in saved:
                os.dup2(file.fileno(), descriptor)
        yield
    finally:
        _flush()
        for descriptor, original in saved.items():
            os.dup2(original, descriptor)
            os.close(original)


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
