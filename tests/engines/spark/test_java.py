from pathlib import Path

import pytest

from icefloe.engines.spark.java import refuse_other_java
from icefloe.errors import TerminalError


def java(folder: Path, version: str) -> Path:
    """A home whose Java says that it is of a version."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '    java.specification.version = {version}' >&2\n")
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize("version", ["17", "21"])
def test_a_java_that_spark_supports_is_silent(tmp_path: Path, version: str) -> None:
    home = java(tmp_path, version)
    refuse_other_java({"JAVA_HOME": str(home), "PATH": "/bin"})
    refuse_other_java({"PATH": f"{home}/bin:/bin"})


@pytest.mark.parametrize(
    ("version", "found"), [("1.8", "8"), ("11", "11"), ("25", "25"), ("x", "of an unknown version")]
)
def test_another_version_is_refused_with_its_place(tmp_path: Path, version: str, found: str) -> None:
    home = java(tmp_path, version)
    with pytest.raises(TerminalError, match=rf"needs Java 17 to 21, but {home}/bin/java is {found}: set JAVA_HOME"):
        refuse_other_java({"JAVA_HOME": str(home), "PATH": "/bin"})


def test_no_java_is_refused_before_spark_submit_says_so(tmp_path: Path) -> None:
    with pytest.raises(TerminalError, match=r"JAVA_HOME is not set and the path has none: .* the engine local"):
        refuse_other_java({"PATH": str(tmp_path)})


def test_a_java_home_that_is_gone_counts_as_spark_counts_it(tmp_path: Path) -> None:
    home = java(tmp_path / "path", "17")
    with pytest.raises(TerminalError, match=rf"but {tmp_path}/gone/bin/java does not run"):
        refuse_other_java({"JAVA_HOME": f"{tmp_path}/gone", "PATH": f"{home}/bin"})
