"""libfaketime, which shows a process another time than the machine's: installed here, or from Debian's package."""

import subprocess
import tempfile
from pathlib import Path
from typing import Final

from demo.servers.fetching import fetching
from demo.servers.server_process import CACHE, ServerUnavailableError

__all__ = ["faketime_library"]

_NAME: Final = "libfaketime.so.1"
_FOLDER: Final = CACHE / "faketime"
_INSTALLED: Final = Path("/usr/lib")


def faketime_library() -> Path:
    """The file for ``LD_PRELOAD``; its package is unpacked into the cache, not installed.

    Raises:
        ServerUnavailableError: the machine has none, and apt could not fetch it.
    """
    with fetching("faketime"):
        found = _found(_INSTALLED) or _found(_FOLDER)
        return found or _fetched()


def _found(folder: Path) -> Path | None:
    return next(folder.glob(f"**/faketime/{_NAME}"), None)


def _fetched() -> Path:
    _FOLDER.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="faketime-", dir=CACHE) as folder:
        made = Path(folder, "made")
        try:
            _run(["apt-get", "download", "libfaketime"], folder)
            [package] = Path(folder).glob("*.deb")
            _run(["dpkg-deb", "--extract", str(package), str(made)], folder)
        except (OSError, subprocess.CalledProcessError) as cause:
            words = cause.stderr if isinstance(cause, subprocess.CalledProcessError) else str(cause)
            raise ServerUnavailableError(
                f"libfaketime could not be fetched; install the package `faketime`: {' '.join(words.split())[-400:]}"
            ) from cause
        # Whole or not there, also if this process is killed.
        made.rename(_FOLDER)
    found = _found(_FOLDER)
    assert found is not None
    return found


def _run(command: list[str], folder: str) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
