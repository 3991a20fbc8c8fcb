"""The Java that spark-submit will find, and a check that Spark can use it."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from icefloe.errors import TerminalError, one_line

__all__ = ["refuse_other_java"]

_SUPPORTED: Final = range(17, 22)
_SPECIFICATION: Final = re.compile(r"^\s*java\.specification\.version = (?:1\.)?(\d+)\s*$", re.MULTILINE)
_REMEDY: Final = "set JAVA_HOME to a Java 17 to 21, or use the engine local"


def refuse_other_java(environ: Mapping[str, str]) -> None:
    """Stops if spark-submit would fail because of its Java, with a sentence that spark-submit does not have.

    Args:
        environ: of spark-submit.

    Raises:
        TerminalError: there is no Java, it does not run, or Spark does not support its version.
    """
    java = _java(environ)
    try:
        printed = subprocess.run(  # noqa: S603 - no shell; the program is the one spark-submit would start
            [java, "-XshowSettings:properties", "-version"],
            env=environ, capture_output=True, text=True, errors="replace", timeout=60, check=False,
        ).stderr  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as cause:
        raise TerminalError(
            f"the engine spark needs Java, but {java} does not run ({one_line(cause)}): {_REMEDY}"
        ) from cause
    found = _SPECIFICATION.search(printed)
    if found is None or int(found[1]) not in _SUPPORTED:
        version = "of an unknown version" if found is None else found[1]
        raise TerminalError(f"the engine spark needs Java 17 to 21, but {java} is {version}: {_REMEDY}", java=java)


def _java(environ: Mapping[str, str]) -> str:
    """The program that Spark's own scripts take: the one of JAVA_HOME, otherwise the first on the path."""
    home = environ.get("JAVA_HOME")
    if home:
        return str(Path(home, "bin", "java"))
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path is None:
        raise TerminalError(f"the engine spark needs Java, but JAVA_HOME is not set and the path has none: {_REMEDY}")
    return on_path
