"""The search for planted secrets finds what is there."""

import subprocess
import sys
from pathlib import Path

from support.servers.planted_secrets import CommandLines, files_with


def test_a_secret_in_a_file_or_in_the_arguments_of_a_process_is_found(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "log").write_bytes(b"\xff password=planted1 \xff")
    assert files_with("planted1", [tmp_path]) == [tmp_path / "a" / "b" / "log"]
    assert files_with("planted2", [tmp_path]) == []
    command = [sys.executable, "-c", "input()", "--password", "planted3"]
    with CommandLines() as watched, subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        while b"planted3" not in watched.arguments:
            assert process.poll() is None
        process.communicate(b"\n")
    assert b"planted1" not in watched.arguments
