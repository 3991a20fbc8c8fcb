import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def find_python(path: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    script = ["/bin/sh", str(ROOT / "make" / "find_python.sh")]
    return subprocess.run(script, env={"PATH": str(path), **environ}, capture_output=True, text=True, check=False)


def program(folder: Path, name: str, body: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


def test_a_shim_that_fails_is_passed_over(tmp_path: Path) -> None:
    program(tmp_path, "python3", "exit 127")
    program(tmp_path, "python3.13", "echo no such version >&2; exit 127")
    (tmp_path / "python3.12").symlink_to(sys.executable)
    found = find_python(tmp_path)
    assert found.returncode == 0
    assert os.access(found.stdout.strip(), os.X_OK)


def test_the_python_named_by_the_user_is_the_only_one_looked_at(tmp_path: Path) -> None:
    (tmp_path / "python3").symlink_to(sys.executable)
    refused = find_python(tmp_path, PYTHON="python3.99")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "python3.99" in refused.stderr
    assert find_python(tmp_path, PYTHON=sys.executable).stdout.strip() == sys.executable


def test_no_suitable_python_is_one_sentence_that_says_what_to_do(tmp_path: Path) -> None:
    missing = find_python(tmp_path)
    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr.startswith("No Python 3.11 to 3.13 found")
    assert len(missing.stderr.splitlines()) == 1


def test_a_python_without_venv_is_distinguished_from_no_python(tmp_path: Path) -> None:
    program(tmp_path, "python3", "exit 2")
    assert "python3-venv" in find_python(tmp_path).stderr
