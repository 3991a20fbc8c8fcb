"""Temporary folders of test processes, which the next process removes if their owner was killed."""

import os
import re
import shutil
import tempfile
from pathlib import Path

__all__ = ["owned_folder"]


def owned_folder(name: str) -> Path:
    """A new temporary folder; removes those of that name whose processes are dead.

    A process that ends by itself removes its folder. One that is killed cannot, and its files would stay in memory.

    Args:
        name: of the kind of folder; the folder's own name has the pid of this process, too.
    """
    places = Path(tempfile.gettempdir())
    for found in places.glob(f"{name}-*"):
        owner = re.fullmatch(rf"{re.escape(name)}-pid(\d+)-.*", found.name)
        if owner and not _is_alive(int(owner[1])):
            shutil.rmtree(found, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{name}-pid{os.getpid()}-", dir=places))


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it belongs to another user
    return True
