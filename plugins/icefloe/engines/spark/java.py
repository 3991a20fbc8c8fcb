"""The Java that spark-submit will find, and a check that Spark can use it."""

import errno
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from icefloe.errors import TerminalError, TransientError, one_line
from icefloe.redaction.hidden import redacted_foreign

__all__ = ["refuse_other_java"]

_SUPPORTED: Final = range(17, 22)
_SPECIFICATION: Final = re.compile(r"^\s*java\.specification\.version = (?:1\.)?(\d+)\s*$", re.MULTILINE)
_PATIENCE_SECONDS: Final = 60
_MOST_CHARACTERS: Final = 300
_NO_PROGRAM: Final = frozenset(
    [errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.ELOOP]
)
"""Why a file does not run, whatever the machine has to spare."""
_REMEDY: Final = "set JAVA_HOME to a Java 17 to 21, or use the engine local"


def refuse_other_java(environ: Mapping[str, str]) -> None:
    """Stops if spark-submit would fail because of its Java, with a sentence that spark-submit does not have.

    Args:
        environ: of spark-submit.

    Raises:
        TerminalError: there is no Java, its file is no program, or Spark does not support its version.
        TransientError: it did not say its version, because the machine lacks memory or processes at this moment.
    """
    java = _java(environ)
    try:
        done = subprocess.run(  # noqa: S603 - no shell; the program is the one spark-submit would start
            [java, "-XshowSettings:properties", "-version"],
            env=environ, capture_output=True, text=True, errors="replace", timeout=_PATIENCE_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as cause:
        if isinstance(cause, OSError) and cause.errno in _NO_PROGRAM:
            raise TerminalError(
                f"the engine spark needs Java, but {java} does not run ({one_line(cause)}): {_REMEDY}", java=java
            ) from cause
        raise _silent(java, one_line(cause)) from cause
    found = _SPECIFICATION.search(done.stderr)
    if found is None:
        said = " ".join((done.stderr or done.stdout).split()) or "nothing"
        raise _silent(java, f"exit code {done.returncode}, it said: {redacted_foreign(said[:_MOST_CHARACTERS])}")
    if int(found[1]) not in _SUPPORTED:
        raise TerminalError(f"the engine spark needs Java 17 to 21, but {java} is {found[1]}: {_REMEDY}", java=java)


def _silent(java: str, why: str) -> TransientError:
    """The error of a Java that did not say its version. Only a version that it says proves that it is the wrong one."""
    return TransientError(
        f"{java} did not say its version ({why}): the machine may have no memory or processes left; run again, and if "
        "that does not help, run it there with -version"
    )


def _java(environ: Mapping[str, str]) -> str:
    """The program that Spark's own scripts take: the one of JAVA_HOME, otherwise the first on the path."""
    home = environ.get("JAVA_HOME")
    if home:
        return str(Path(home, "bin", "java"))
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path is None:
        raise TerminalError(f"the engine spark needs Java, but JAVA_HOME is not set and the path has none: {_REMEDY}")
    return on_path
