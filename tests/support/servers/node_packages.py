"""Programs that come from npm's registry with all that they need, unpacked into the cache by a lock."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from demo.servers.fetching import fetching
from demo.servers.server_process import CACHE, ServerUnavailableError

__all__ = ["node_packages", "node_program"]


def node_packages(lock: Path) -> Path:
    """The folder ``node_modules`` of a lock; fetches it the first time.

    Args:
        lock: folder of a ``package.json`` and its ``package-lock.json``, which has a digest of each package. It is made
            by ``npm install --package-lock-only --ignore-scripts --omit-lockfile-registry-resolved``.

    Raises:
        ServerUnavailableError: there is no npm, or a package could not be fetched.
    """
    digest = hashlib.sha256((lock / "package-lock.json").read_bytes()).hexdigest()
    place = CACHE / "npm" / f"{lock.name}-{digest[:16]}"
    with fetching(lock.name):
        if not place.is_dir():
            _fetch(lock, place)
    return place / "node_modules"


def node_program() -> str:
    """The program that runs them.

    Raises:
        ServerUnavailableError: the machine has none.
    """
    return _program("node")


def _fetch(lock: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{lock.name}-", dir=place.parent) as folder:
        made = Path(folder, "made")
        shutil.copytree(lock, made)
        # Nothing of them runs while they are fetched, and npm's own cache would keep them twice.
        done = subprocess.run(
            [_program("npm"), "ci", "--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund", "--cache",
             f"{folder}/cache"],
            cwd=made, env=os.environ, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode != 0:
            raise ServerUnavailableError(f"the packages of {lock.name} could not be fetched:\n{done.stderr[-2000:]}")
        # Whole or not there, also if this process is killed.
        made.rename(place)


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise ServerUnavailableError(f"this server needs Node.js 20 or newer, and {name} is not on the path")
    return found
