"""The local disks of a task: Spark's folders, and temporary ones that go with their process."""

import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from icefloe.errors import TransientError, lack_of_memory_named, one_line

__all__ = ["local_folders", "on_local_disk", "scratch_file", "task_folder"]

_VARIABLES: Final = ("SPARK_LOCAL_DIRS", "LOCAL_DIRS")
"""Spark sets the first for its Python workers, from ``spark.local.dir`` or from its cluster; YARN sets the second."""
_SUFFIX: Final = ".task"
_OURS: Final = re.compile(r"icefloe-[a-z]+-[a-z0-9_]+\.task")
_YOUNG_SECONDS: Final = 60.0
"""A folder that changed within this time may belong to a process on another machine: some mounts hide its lock."""


def local_folders() -> tuple[Path | None, ...]:
    """Spark's folders, one per disk; otherwise one None: the temporary folder."""
    for variable in _VARIABLES:
        named = [Path(name) for name in os.environ.get(variable, "").split(",") if name]
        usable = tuple(folder for folder in named if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK))
        if usable:
            return usable
    return (None,)


@contextmanager
def on_local_disk(failed: str) -> Iterator[None]:
    """Turns errors of the local disk into an error that may go away on retry.

    Args:
        failed: such as "the spill files of a map task cannot be written".
    """
    try:
        with lack_of_memory_named():
            yield
    except OSError as cause:
        raise TransientError(
            f"{failed}: {one_line(cause)}; free space there, or set SPARK_LOCAL_DIRS or TMPDIR to a larger disk"
        ) from cause


@contextmanager
def task_folder(purpose: str, parent: Path | None = None) -> Iterator[Path]:
    """A new folder for the context's time, by default on the first disk; removes those of dead processes."""
    with ExitStack() as owned:
        with on_local_disk("no folder for temporary files can be made"):
            place = Path(parent or local_folders()[0] or tempfile.gettempdir())
            remove_left(place)
            # What cannot be removed in the end is removed like the folder of a dead process.
            made = tempfile.TemporaryDirectory(
                prefix=f"icefloe-{purpose}-", suffix=_SUFFIX, dir=place, ignore_cleanup_errors=True
            )
            folder = Path(owned.enter_context(made))
            _lock(folder, owned)
        yield folder


@contextmanager
def scratch_file(file: BinaryIO) -> Iterator[BinaryIO]:
    """Closes a file of a task folder; a full disk is no error a second time.

    To be sure that all of it is written, flush or close the file before.
    """
    try:
        yield file
    finally:
        with suppress(OSError):
            file.close()


def remove_left(place: Path) -> None:
    """Those of living processes or other users stay, and all without a lock."""
    with suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if _OURS.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                with suppress(OSError):
                    _remove_if_left(Path(entry.path))


def _remove_if_left(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        if time.time() - os.fstat(descriptor).st_mtime > _YOUNG_SECONDS:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)


def _lock(folder: Path, owned: ExitStack) -> None:
    # The lock goes with the process, however that ends. Numbers of processes would not tell: containers that share a
    # disk do not know those of each other. Nor does an age alone: the clock of another process may be wrong.
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    owned.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        # This disk knows no locks, whatever error it says that by: nobody can lock a folder to remove it either.
        pass
    # A process whose clock is ahead may have removed it before.
    folder.stat()
