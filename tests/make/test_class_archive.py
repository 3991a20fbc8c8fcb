import os
from pathlib import Path

import pytest

from make import class_archive
from make.class_archive import archive_path, main, options


@pytest.fixture
def java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(class_archive, "_CACHE", tmp_path / "cache")
    home = tmp_path / "jdk"
    home.mkdir()
    (home / "release").write_text('JAVA_VERSION="17.0.15"')
    monkeypatch.setenv("JAVA_HOME", str(home))
    return home


def spark_submit(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Puts a program before the real one on the path."""
    program = folder / "bin" / "spark-submit"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


def test_the_archive_is_made_once(
    java_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spark_submit(tmp_path, monkeypatch, 'for o in $SPARK_SUBMIT_OPTS; do echo classes > "${o#*=}"; break; done')
    assert main() == 0
    spark_submit(tmp_path / "cache", monkeypatch, "exit 9")
    assert main() == 0
    path = archive_path(java_home)
    assert path.read_text() == "classes\n"
    assert capsys.readouterr().out.splitlines() == [options(path)] * 2
    assert sorted(path.parent.iterdir()) == [path.parent / "bin", path]


def test_tests_run_without_an_archive_if_none_can_be_made(
    java_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spark_submit(tmp_path, monkeypatch, "exit 9")
    assert main() == 0
    printed = capsys.readouterr()
    assert (printed.out, "without an archive" in printed.err) == ("", True)
    assert not archive_path(java_home).exists()
