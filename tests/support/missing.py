"""The one way by which a test that lacks something of its machine is left out."""

import importlib.util
import os
import shutil
import sys
from typing import Final, NoReturn

import pytest

__all__ = ["SKIP_NOTHING", "missing", "require_linux", "require_package", "require_program"]

SKIP_NOTHING: Final = "ICEFLOE_SKIP_NOTHING"
"""Continuous integration sets this variable: a test that was left out there proves nothing to anybody."""


def missing(what: str, how_to_get_it: str) -> NoReturn:
    """Skips the test on a developer's machine, and fails it in continuous integration."""
    sentence = f"{what}: {how_to_get_it}"
    if os.environ.get(SKIP_NOTHING):
        pytest.fail(f"{sentence} ({SKIP_NOTHING} is set, so that nothing is skipped)", pytrace=False)
    pytest.skip(sentence)


def require_package(module: str, package: str) -> None:
    """Goes on only if a Python package is installed."""
    try:
        is_there = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        is_there = False
    if not is_there:
        missing(f"the Python package {package} is not installed", "run `make check`, which installs it into .venv")


def require_program(name: str) -> None:
    """Goes on only if a program is on the path."""
    if shutil.which(name) is None:
        missing(f"{name} is not on the path", f"install the package `{name}`")


def require_linux() -> None:
    """Goes on only on Linux, whose special files a test uses."""
    if sys.platform != "linux":
        missing(f"{sys.platform} has not the special files of this test", "run it on Linux")
