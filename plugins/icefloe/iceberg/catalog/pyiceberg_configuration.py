"""PyIceberg's own configuration; a fault is reported without its values."""

import os
from pathlib import Path
from typing import Final

from pyiceberg.utils.config import PYICEBERG_HOME, PYICEBERG_YML, Config

from icefloe.errors import TerminalError
from icefloe.redaction.hidden import hide_environment

__all__ = ["read_configuration"]

_EXPECTED: Final = "expected a mapping as in `catalog: {lake: {uri: https://catalog.example.com}}`"


def read_configuration() -> Config:
    """The file ``.pyiceberg.yaml`` and the variables ``PYICEBERG_...``, as they are now.

    PyIceberg reads them when imported, too, so `icefloe.iceberg` calls this first.
    """
    hide_environment(os.environ)
    try:
        return Config()
    except Exception as cause:  # noqa: BLE001 - whatever it is, its text may quote the file
        error = _error(cause)
    # Outside the block, so that no traceback leads to the cause.
    raise error


def _error(cause: Exception) -> TerminalError:
    path = _file()
    if isinstance(cause, ValueError) and not isinstance(cause, UnicodeDecodeError):
        what = "a variable PYICEBERG_... has a value, but the file or another variable has a mapping"
        return TerminalError(f"PyIceberg's configuration contradicts itself: {what}; {_EXPECTED}")
    if isinstance(cause, OSError):
        reason = cause.strerror or type(cause).__name__
    elif isinstance(cause, UnicodeDecodeError):
        reason = "it is not UTF-8"
    elif isinstance(cause, AttributeError):
        reason = f"it holds no mapping: {_EXPECTED}"
    else:
        line = _line(cause)
        reason = f"{'' if line is None else f'line {line}: '}not the YAML that PyIceberg takes: {_EXPECTED}"
    return TerminalError(f"PyIceberg's configuration {path} cannot be read: {reason}")


def _file() -> Path:
    """The first file that exists, as PyIceberg takes it."""
    folders = [os.environ.get(PYICEBERG_HOME), os.path.expanduser("~"), os.getcwd()]  # noqa: PTH109, PTH111 - as it does
    files = [Path(folder) / PYICEBERG_YML for folder in folders if folder]
    return next((file for file in files if file.is_file()), files[0])


def _line(cause: Exception) -> int | None:
    """The line of a YAML error, from 1."""
    for name in ("problem_mark", "context_mark"):
        line = getattr(getattr(cause, name, None), "line", None)
        if isinstance(line, int):
            return line + 1
    return None
