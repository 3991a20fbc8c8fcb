"""Temporary folders of test processes, which the next process removes if their owner was killed."""

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Final

__all__ = ["owned_folder", "use_quick_folder"]


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


_IN_MEMORY: Final = Path("/dev/shm")
_LEAST_BYTES: Final = 8 * 2**30
"""Room that must be free: a whole run has left 1.7 GiB."""


def use_quick_folder() -> None:
    """Makes temporary files of this process and of those that it starts files in memory.

    Checkpoints, stores and catalogs wait for the disk at each of their many small files. ``TMPDIR`` counts where it is
    set.
    """
    if "TMPDIR" in os.environ or not os.access(_IN_MEMORY, os.W_OK):
        return
    if min(shutil.disk_usage(_IN_MEMORY).free, _available_memory()) >= _LEAST_BYTES:
        os.environ["TMPDIR"] = str(_IN_MEMORY)
        # It may have been asked for already, and is kept then.
        tempfile.tempdir = None


def _available_memory() -> int:
    """Bytes of memory that can be used without swapping; 0 where that is not known."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), 0)
