"""Local disk, by calls of the system: a written value is on disk before anything depends on it."""

import errno
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Final, Never
from uuid import uuid4

from obstore import exceptions

from icefloe.errors import TransientError
from icefloe.storage.object_store import ObjectStore
from icefloe.storage.requests import Requests
from icefloe.storage.store import ByteRange, StoredObject, check_folder, is_foreign, is_unfinished, join_url
from icefloe.storage.store_errors import StorePlace

_COPIED_BYTES: Final = 2**20
# Some file systems cannot sync a folder and say so by these; they keep its entries in their own way.
_CANNOT_SYNC: Final = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)


@contextmanager
def synced_file(folder: Path, name: str, data: bytes | Path, size_bytes: int) -> Iterator[Path]:
    """A whole file on disk under its own name, to be linked or renamed inside; then gone."""
    path = folder / unfinished_name(name)
    try:
        with path.open("xb", buffering=0) as file:
            for chunk in _chunks(data):
                _write_all(file.fileno(), chunk)
            written_bytes = os.fstat(file.fileno()).st_size
            if written_bytes != size_bytes:
                raise OSError(errno.EIO, f"{written_bytes} bytes of {size_bytes} were written", str(path))
            os.fsync(file.fileno())
        yield path
    finally:
        path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Puts the entries of a folder on disk: the names, not the files' content."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        # A folder that cannot be read cannot be synced; its file system is trusted with its entries.
        return
    try:
        os.fsync(descriptor)
    except OSError as cause:
        if cause.errno not in _CANNOT_SYNC:
            raise
    finally:
        os.close(descriptor)


def make_synced_folder(folder: Path, root: Path) -> None:
    """Makes a folder; its entry and those of the folders above are on disk afterwards."""
    folders = (folder, *folder.parents)
    missing = sum(1 for _ in takewhile(lambda each: not each.is_dir(), folders))
    below_root = folders.index(root) + 1 if root in folders else 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as cause:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from cause
    # Folders from the root on are synced even if they exist: their maker may not have synced them yet.
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


class LocalStore(ObjectStore):
    """A folder of this machine, or one that it shares with others.

    A value becomes visible whole, by an atomic rename (`put`) or hard link (`create`). Once a call has returned, it
    outlasts a crash and a loss of power, if the disk keeps what it reports as synced. If syncing the folder fails, the
    call fails although the value can be seen.
    """

    # Obstore is not asked: its thread takes several times as long, and hangs without memory.
    def __init__(self, place: StorePlace, folder: Path, requests: Requests | None = None) -> None:
        super().__init__(place, _no_library, requests)
        self._folder = folder
        self._ready: set[Path] = set()

    def create(self, key: str, data: bytes | Path) -> bool:
        is_new = super().create(key, data)
        # A value that another caller has just created must be on disk too before this caller builds on it.
        with self._place.faults("create", key):
            sync_folder(self._path(key).parent)
        return is_new

    def list(self, prefix: str) -> Iterator[StoredObject]:
        top = self._path(check_folder(prefix.removesuffix("/")) if prefix else "")
        with self._asked("list", "list", prefix):
            # One folder to its end before the next: the system soon ends the way through one that is inside itself.
            for folder, folders, names in os.walk(top, onerror=_raise_unless_gone, followlinks=True):
                folders[:] = [name for name in folders if not is_foreign(name)]
                for path in (f"{folder}/{name}" for name in names if not is_foreign(name) and not is_unfinished(name)):
                    # A link that leads nowhere is no value, and neither is a file that has just gone.
                    with suppress(FileNotFoundError):
                        found = os.stat(path)  # noqa: PTH116 - making a path for each takes as long as the rest
                        if S_ISREG(found.st_mode):
                            key = path.removeprefix(str(self._folder)).lstrip("/")
                            modified = datetime.fromtimestamp(found.st_mtime, UTC)
                            yield StoredObject(key=key, size_bytes=found.st_size, modified=modified)

    def remove_unfinished(self, prefix: str = "", *, is_over: bool = False) -> int:
        with self._place.faults("delete", prefix):
            top = self._path(prefix) if prefix else self._folder
            return sum(sweep_unfinished(Path(folder), is_over=is_over) for folder, _, _ in os.walk(top))

    def _size_at(self, key: str) -> int:
        with self._sought():
            found = self._path(key).stat()
        if S_ISDIR(found.st_mode):
            raise FileNotFoundError(f"{key} is a folder")
        return found.st_size

    def _look_at(self, key: str) -> bytes:
        # A file that is cut meanwhile gives what is left of it: whoever reads a value proves it whole.
        with self._sought():
            return self._path(key).read_bytes()

    def _fetch(self, key: str, ranges: Sequence[ByteRange]) -> Sequence[memoryview]:
        parts = []
        with (
            self._asked("get_ranges", "read", key, number=len(ranges), is_look=False),
            self._sought(),
            self._path(key).open("rb") as file,
        ):
            size_bytes = os.fstat(file.fileno()).st_size
            for start, stop in ranges:
                file.seek(min(start, size_bytes))
                # Room is made for what is asked for, whatever is there.
                parts.append(memoryview(file.read(max(0, min(stop, size_bytes) - start))))
        return parts

    def _replace(self, key: str, data: bytes | Path, size_bytes: int) -> None:
        path = self._path(key)
        with self._written(key, data, size_bytes) as written:
            written.replace(path)
        sync_folder(path.parent)

    def _add(self, key: str, data: bytes | Path, size_bytes: int) -> None:
        # The file is whole and synced under a name of its own before its real name appears:
        #   put      rename .0.json.5f0c2a91b3d4#0 to 0.json     replaces what is there
        #   create   link it as 0.json                           fails if it is there, which a rename would not
        with self._written(key, data, size_bytes) as written:
            try:
                self._path(key).hardlink_to(written)
            except FileExistsError as cause:
                raise exceptions.AlreadyExistsError(str(cause)) from cause

    def _remove(self, keys: Sequence[str]) -> None:
        folders = set()
        for key in keys:
            path = self._path(key)
            with suppress(FileNotFoundError, NotADirectoryError):
                path.unlink()
                folders.add(path.parent)
        for folder in folders:
            with suppress(FileNotFoundError):
                sync_folder(folder)

    @contextmanager
    def _sought(self) -> Iterator[None]:
        """A folder is no value, and a place that is no folder has none."""
        try:
            yield
        except IsADirectoryError as cause:
            raise FileNotFoundError(str(cause)) from cause
        except NotADirectoryError as cause:
            if self._folder.is_dir():
                raise
            raise FileNotFoundError(str(cause)) from cause

    @contextmanager
    def _written(self, key: str, data: bytes | Path, size_bytes: int) -> Iterator[Path]:
        path = self._path(key)
        self._make_ready(path.parent)
        try:
            with synced_file(path.parent, path.name, data, size_bytes) as written:
                yield written
        except FileNotFoundError as cause:
            self._ready.discard(path.parent)
            raise TransientError(
                f"cannot write {join_url(self.url, key)}: the folder, or the unfinished file in it, was removed "
                "meanwhile; run again", url=self.url, key=key,
            ) from cause  # fmt: skip

    def _make_ready(self, folder: Path) -> None:
        if folder not in self._ready or not folder.is_dir():
            make_synced_folder(folder, self._folder)
            with suppress(PermissionError):  # It can be written to, which is all that counts here.
                sweep_unfinished(folder)
            self._ready.add(folder)

    def _path(self, key: str) -> Path:
        return self._folder / key


def _no_library() -> Never:
    raise AssertionError("local disk was asked by obstore")


def _raise_unless_gone(fault: OSError) -> None:
    if not isinstance(fault, (FileNotFoundError, NotADirectoryError)):
        raise fault


_OURS: Final = re.compile(r"\..+\.[0-9a-f]{12}#0", re.DOTALL)
_LONGEST_NAME_BYTES: Final = 120
_OLD_SECONDS: Final = 86_400.0
"""Age at which the file of a value that is being written has no living writer, though clocks may be hours apart."""


def unfinished_name(name: str) -> str:
    """Another name at each call for a value that is being written; listings hide it by its end."""
    start = name.encode(errors="surrogateescape")[:_LONGEST_NAME_BYTES].decode(errors="ignore")
    # Spark and Arrow ignore files that begin with a dot.
    return f".{start}.{uuid4().hex[:12]}#0"


def sweep_unfinished(folder: Path, *, is_over: bool = False) -> int:
    """Removes dead writers' files in one folder, living ones' too if writing ``is_over``; returns their number."""
    removed = 0
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            if _OURS.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                # An old file may be another user's.
                with suppress(FileNotFoundError if is_over else OSError):
                    # A wrong guess costs the writer one retry.
                    if is_over or time.time() - entry.stat().st_mtime > _OLD_SECONDS:
                        Path(entry).unlink()
                        removed += 1
    return removed
