"""Each Python that README promises besides this one: installed from the locks, tried, and deleted."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.servers.server_process import CACHE
from support.missing import missing

pytestmark = [pytest.mark.extended, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", ".cache", ".demo", ".hypothesis", ".*_cache", "__pycache__", "dist")
NOT_PASSED_ON = re.compile(r"(MAKE|MFLAGS|PYTEST|PYTHON|AIRFLOW|SPARK|PYSPARK|VIRTUAL_ENV|TMPDIR)")
FAST = "not (spark or servers or daemons or slow or extended)"
TRIED = ("plugins/icefloe", "tests/pipeline", "tests/dags")
"""Doctests, and what touches Airflow: its release for a Python is another than ours."""


def run(*command: str, folder: Path) -> str:
    environ = {name: value for name, value in os.environ.items() if not NOT_PASSED_ON.match(name)}
    done = subprocess.run(
        command, cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-5_000:]
    return done.stdout


def python_of(version: str) -> str:
    """The program of a Python, on the path or where pyenv and uv keep it."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    folders = (pyenv / "versions", Path.home() / ".local/share/uv/python")
    kept = [str(path) for folder in folders for path in sorted(folder.glob(f"*{version}.*/bin/python{version}"))]
    found = subprocess.run(
        ["/bin/sh", ROOT / "make/find_python.sh"],
        env={"PATH": os.environ["PATH"], "PYTHON": " ".join([f"python{version}", *kept])},
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode != 0:
        missing(f"there is no Python {version} with its venv module", f"install it, as by `pyenv install {version}`")
    return found.stdout.strip()


@pytest.fixture
def checkout() -> Iterator[Path]:
    """A copy of this checkout on disk: an environment is too large for memory."""
    CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="python-", dir=CACHE) as folder:
        yield Path(shutil.copytree(ROOT, Path(folder, "icefloe"), ignore=LEFT_OUT, symlinks=True))


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_the_demo_and_the_fast_tests_pass_on_another_python(version: str, checkout: Path) -> None:
    chosen = f"PYTHON={python_of(version)}"
    run("make", chosen, ".venv/.developer", folder=checkout)
    python = str(checkout / ".venv/bin/python")
    assert run(python, "--version", folder=checkout).startswith(f"Python {version}.")
    assert "Verified: 313,056 changes of 4 batches" in run("make", chosen, "demo", folder=checkout)
    run(python, "-m", "pytest", "-q", "-n", "2", "--dist", "loadscope", "-m", FAST, *TRIED, folder=checkout)
