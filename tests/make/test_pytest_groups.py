"""Both groups of tests run, and the exit code is the worse of both."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = """
import pytest

def test_alone():
    assert {alone}

@pytest.mark.spark
def test_with_spark():
    assert {with_spark}
"""


@pytest.mark.parametrize(("alone", "with_spark", "code"), [(1, 1, 0), (0, 1, 1), (1, 0, 1)])
def test_both_groups_run_and_either_may_fail(tmp_path: Path, alone: int, with_spark: int, code: int) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    spark\n    servers\n    daemons\n")
    (tmp_path / "test_groups.py").write_text(TESTS.format(alone=alone, with_spark=with_spark))
    done = subprocess.run(
        [sys.executable, "-m", "make.pytest_groups", "-v", str(tmp_path)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    outcomes = {1: "PASSED", 0: "FAILED"}
    assert f"test_alone {outcomes[alone]}" in done.stdout
    assert f"test_with_spark {outcomes[with_spark]}" in done.stdout
    assert done.stdout.count("1 deselected in") == 2
