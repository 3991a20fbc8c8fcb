import errno
import os
import subprocess
from pathlib import Path

import pytest

from icefloe.engines.spark import master
from icefloe.engines.spark.master import refuse_other_java
from icefloe.errors import TerminalError, TransientError


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


@pytest.mark.parametrize(("version", "found"), [("1.8", "8"), ("11", "11"), ("25", "25")])
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


@pytest.mark.parametrize("number", [errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ETXTBSY])
def test_a_machine_that_starts_no_process_at_this_moment_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    home = java(tmp_path, "17")
    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(TransientError, match=rf"{home}/bin/java did not say its version \(.*{os.strerror(number)}"):
        refuse_other_java({"JAVA_HOME": str(home)})


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOEXEC])
def test_a_file_that_is_no_program_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(TerminalError, match=r"does not run .*: set JAVA_HOME"):
        refuse_other_java({"JAVA_HOME": str(tmp_path)})


def program(folder: Path, script: str) -> Path:
    """A home whose Java is a script."""
    home = java(folder, "17")
    (home / "bin" / "java").write_text(f"#!/bin/sh\n{script}\n")
    return home


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'There is insufficient memory for the Java Runtime Environment' >&2; exit 1", "insufficient memory"),
        ("echo 'Error: unable to create native thread' >&2; exit 1", "unable to create native thread"),
        ("echo 'java.specification.version = x' >&2", "exit code 0"),
        ("kill -9 $$", "exit code -9, it said: nothing"),
    ],
)
def test_a_java_that_dies_before_it_says_its_version_is_tried_again(tmp_path: Path, script: str, said: str) -> None:
    with pytest.raises(TransientError, match=rf"did not say its version .*{said}"):
        refuse_other_java({"JAVA_HOME": str(program(tmp_path, script)), "PATH": "/bin"})


def test_a_java_that_takes_too_long_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(master, "_PATIENCE_SECONDS", 0.1)
    with pytest.raises(TransientError, match=r"did not say its version .*timed out"):
        refuse_other_java({"JAVA_HOME": str(program(tmp_path, "exec sleep 5")), "PATH": "/bin"})
