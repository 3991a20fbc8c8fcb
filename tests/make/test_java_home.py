import shlex
import subprocess
from pathlib import Path

import pytest

from make.java_home import find_java_home, specification, write_wrapper


def fake_java(folder: Path, version: str) -> Path:
    """A home whose bin/java reports that specification version the way a real one does, on standard error."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    lines = ["Property settings:", f"    java.home = {folder}", f"    java.specification.version = {version}", ""]
    java.write_text(f"#!/bin/sh\nprintf '%s\\n' {shlex.join(lines)} >&2\n")
    java.chmod(0o755)
    return folder


@pytest.mark.parametrize(("written", "major"), [("17", 17), ("21", 21), ("25", 25), ("1.8", 8), ("9", 9)])
def test_the_version_is_read_from_the_specification_property(written: str, major: int) -> None:
    printed = f"    java.home = /opt/j d k\n    java.specification.version = {written}\n    java.vm.version = 99\n"
    assert specification(printed) == (major, Path("/opt/j d k"))


@pytest.mark.parametrize("version", ["17", "18", "21"])
def test_java_17_to_21_on_the_path_is_used(tmp_path: Path, version: str) -> None:
    home = fake_java(tmp_path / "jdk", version)
    assert find_java_home({"PATH": str(home / "bin")}) == home


@pytest.mark.parametrize("version", ["1.8", "11", "16", "22", "25"])
def test_other_versions_do_not_count(tmp_path: Path, version: str) -> None:
    home = fake_java(tmp_path / "jdk", version)
    assert find_java_home({"PATH": str(home / "bin"), "JAVA_HOME": str(home)}) is None


def test_the_path_serves_where_java_home_is_too_new_or_gone(tmp_path: Path) -> None:
    new, on_path = fake_java(tmp_path / "new", "25"), fake_java(tmp_path / "on_path", "17")
    assert find_java_home({"JAVA_HOME": str(new), "PATH": str(on_path / "bin")}) == on_path
    assert find_java_home({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(on_path / "bin")}) == on_path


def test_the_wrapper_leaves_out_the_one_argument_and_hands_on_the_others(tmp_path: Path) -> None:
    real = tmp_path / "the real one"
    (real / "bin").mkdir(parents=True)
    (real / "bin" / "java").write_text('#!/bin/sh\nfor argument do printf "%s|" "$argument"; done\n')
    (real / "bin" / "java").chmod(0o755)
    home = write_wrapper(real, tmp_path / "stand-in", ["-Done=1"])
    called = [str(home / "bin" / "java"), "-cp", "a b:*", "--add-modules=jdk.incubator.vector", "", "Main", "$HOME"]
    printed = subprocess.run(called, capture_output=True, text=True, check=True).stdout
    assert printed == "-Done=1|-cp|a b:*||Main|$HOME|"
