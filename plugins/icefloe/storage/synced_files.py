"""Files and folders of this machine that outlast a loss of power."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Final

from icefloe.storage.unfinished import open_unfinished

_COPIED_BYTES: Final = 2**20
# Some file systems cannot sync a folder and say so by these; they keep its entries in their own way.
_CANNOT_SYNC: Final = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)


@contextmanager
def synced_file(folder: Path, name: str, data: bytes | Path, size_bytes: int) -> Iterator[Path]:
    """A whole file on disk under a name of its own, to be linked or renamed inside; it is gone afterwards.

    Args:
        folder: the folder of the value.
        name: of the value.
        data: its bytes, or the file to copy.
        size_bytes: of the data.

    Raises:
        OSError: it could not be written or synced. It is removed: after a failed sync the kernel may call lost pages
            clean, so neither a second sync nor reading back proves anything.
    """
    descriptor, path = open_unfinished(folder, name)
    try:
        for chunk in _chunks(data):
            _write_all(descriptor, chunk)
        _refuse_other_size(descriptor, size_bytes, path)
        os.fsync(descriptor)
        yield path
    finally:
        # Closed even if it cannot be removed: its lock would say that its writer lives, and no sweep would take it.
        try:
            path.unlink(missing_ok=True)
        finally:
            os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Puts the entries of a folder on disk: the names, not the content of the files.

    A folder that cannot be opened for reading cannot be synced either; its file system is trusted with its entries.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        return
    try:
        os.fsync(descriptor)
    except OSError as cause:
        if cause.errno not in _CANNOT_SYNC:
            raise
    finally:
        os.close(descriptor)


def make_synced_folder(folder: Path, root: Path) -> None:
    """Makes a folder unless it exists; its entry and the entries of the folders above are on disk afterwards.

    Folders from ``root`` on are synced even if they exist: whoever made them may not have synced them yet.
    """
    folders = (folder, *folder.parents)
    missing = sum(1 for _ in takewhile(lambda each: not each.is_dir(), folders))
    below_root = folders.index(root) + 1 if root in folders else 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as cause:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from cause
    for each in reversed(folders[: max(missing, below_root)]):
        sync_folder(each.parent)


def _chunks(data: bytes | Path) -> Iterator[memoryview]:
    if isinstance(data, bytes):
        yield memoryview(data)
        return
    buffer = memoryview(bytearray(_COPIED_BYTES))
    with data.open("rb", buffering=0) as source:
        while count := source.readinto(buffer):
            yield buffer[:count]


def _write_all(descriptor: int, chunk: memoryview) -> None:
    while chunk:
        chunk = chunk[os.write(descriptor, chunk) :]


def _refuse_other_size(descriptor: int, size_bytes: int, path: Path) -> None:
    written_bytes = os.fstat(descriptor).st_size
    if written_bytes != size_bytes:
        raise OSError(errno.EIO, f"{written_bytes} bytes of {size_bytes} were written", str(path))
