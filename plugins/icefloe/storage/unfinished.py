"""Files that are being written next to the values of a local store, and files that dead writers left there."""

import errno
import fcntl
import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

_OURS: Final = re.compile(r"\..+\.[0-9a-f]{12}#0", re.DOTALL)
_LONGEST_NAME_BYTES: Final = 120
_YOUNG_SECONDS: Final = 60.0
"""A file written to within this time may have a writer on another machine; some shared mounts hide its lock."""
_IDLE_SECONDS: Final = 600.0
"""The same if there are no locks at all."""


def open_unfinished(folder: Path, name: str) -> tuple[int, Path]:
    """A new file for the value ``name`` while it is being written: descriptor and path.

    A lock marks it as a file whose writer lives; the lock goes with the process, however that ends.

    Raises:
        OSError: it cannot be made.
    """
    #   created and locked, written, synced -> linked or renamed -> removed, and the lock with it
    #   the writer dies: the lock is free -> a later writer in the folder removes the file, once it is a minute old
    while True:
        path = folder / unfinished_name(name)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        if _lock(descriptor) is not False and os.fstat(descriptor).st_nlink:
            return descriptor, path
        # Another process took it for a dead writer's file before it was locked.
        os.close(descriptor)
        path.unlink(missing_ok=True)


def unfinished_name(name: str) -> str:
    """Another name at each call for the value ``name`` while it is being written.

    Listings hide it because of its end. Spark and Arrow take no file for data that begins with a dot.
    """
    start = name.encode(errors="surrogateescape")[:_LONGEST_NAME_BYTES].decode(errors="ignore")
    return f".{start}.{uuid4().hex[:12]}#0"


def remove_unfinished(folder: Path, *, is_over: bool = False) -> int:
    """Removes the files that dead writers left in one folder; returns their number.

    The lock of a writer on another machine may not be seen here (NFS mounted with ``nolock``, virtiofs, sshfs), so a
    file must also be a minute old. A writer whose file is removed all the same gets an error and nothing becomes
    visible: a wrong guess costs one retry.

    Args:
        folder: may be missing.
        is_over: nobody may write here any more: also remove the files of living writers.
    """
    removed = 0
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            is_unfinished = _OURS.fullmatch(entry.name)
            if is_unfinished and entry.is_file(follow_symlinks=False) and _remove(Path(entry.path), is_over=is_over):
                removed += 1
    return removed


def _remove(path: Path, *, is_over: bool) -> bool:
    """Removes one file unless its writer lives; the lock is held meanwhile, so that no other process takes the file."""
    if is_over:
        path.unlink(missing_ok=True)
        return True
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:  # gone, or another user's
        return False
    try:
        if not _is_dead(descriptor):
            return False
        path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)
    return True


def _is_dead(descriptor: int) -> bool:
    idle_seconds = time.time() - os.fstat(descriptor).st_mtime
    if idle_seconds <= _YOUNG_SECONDS:
        return False
    # The lock is free if its writer is dead: the kernel takes it from a process, however that ends.
    took_lock = _lock(descriptor)
    return idle_seconds > _IDLE_SECONDS if took_lock is None else took_lock


def _lock(descriptor: int) -> bool | None:
    """True if this process has the lock now; None if the file system has no locks, so that a file's age decides."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as cause:
        return False if cause.errno in (errno.EWOULDBLOCK, errno.EACCES) else None
    return True
