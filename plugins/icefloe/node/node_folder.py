"""The folder of one machine: map tasks write it, readers and the server read it."""

import errno
import logging
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from icefloe.errors import TransientError, one_line
from icefloe.node.messages import BATCH, PATH, Piece, PieceFault, whole_piece

logger = logging.getLogger(__name__)

CHUNK_BYTES: Final = 2 << 20
"""Bytes of one file that are in memory for one request."""
_DRAINING: Final = ".draining"
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
"""Faults of the process that opens a file, and not of the file."""


class NoFreeFileError(TransientError):
    """This process can open no further file now. Its map outputs are well."""


class NodeFolder:
    """Data files below one local folder, as ``<checkpoint id>/<batch>/<map_id>.<generation>.<attempt>.data``.

    Nothing is synced to disk: a file lost in a crash of the machine is made again.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def is_draining(self) -> bool:
        """True if nothing new shall be written here."""
        # A folder that this user may not enter is no reason to fail: what is put there goes to the store.
        return os.path.exists(self._folder / _DRAINING)  # noqa: PTH110 - Path.exists raises then

    def drain(self) -> None:
        """Refuses new files from now on; a map task that is writing may still end."""
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / _DRAINING).touch()

    def refill(self) -> None:
        """Ends what `drain` began."""
        (self._folder / _DRAINING).unlink(missing_ok=True)

    def put(self, path: str, data: bytes | Path) -> bool:
        """Writes a data file; False, and nothing left of it, if the disk is full or broken."""
        place, unfinished = self._place(path), self._place(path).with_suffix(".part")
        try:
            # Rows of a table: not for other users of this machine.
            place.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            place.parent.mkdir(exist_ok=True)
            if isinstance(data, Path):
                shutil.copyfile(data, unfinished)
            else:
                unfinished.write_bytes(data)
            # Last, so that a file under its own name is whole.
            unfinished.rename(place)
        except OSError as error:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
            logger.warning(
                "map output %s goes to the store, because its node cannot keep it: %s", path, one_line(error)
            )
            return False
        return True

    def delete(self, path: str) -> None:
        """Deletes a data file if it is there."""
        with suppress(OSError):
            self._place(path).unlink(missing_ok=True)

    def delete_batch(self, batch: str) -> None:
        """Deletes the files of a batch, ``<checkpoint id>/<number>``; other names are passed over."""
        if BATCH.fullmatch(batch):
            shutil.rmtree(self._folder / batch, ignore_errors=True)
            with suppress(OSError):
                (self._folder / batch).parent.rmdir()

    def read(self, piece: Piece) -> Iterator[bytes | PieceFault] | PieceFault:
        """The bytes of a piece in chunks; a fault instead, or at their end, if they cannot be had.

        Raises:
            NoFreeFileError: the process can open no further file.
        """
        if not PATH.fullmatch(piece.path):
            return PieceFault("no map output has such a path")
        if not 0 <= piece.start <= piece.stop <= piece.size_bytes:
            return PieceFault(f"bytes {piece.start} to {piece.stop} are not in a file of {piece.size_bytes} bytes")
        try:
            descriptor = os.open(f"{self._folder}/{piece.path}", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            if error.errno in _EXHAUSTED:
                raise NoFreeFileError(
                    f"a map output of this machine cannot be opened: {one_line(error)}; raise the limit of open files "
                    "of this process (LimitNOFILE with systemd)"
                ) from error
            return PieceFault(
                "it is gone" if error.errno == errno.ENOENT else f"it cannot be opened: {one_line(error)}"
            )
        found_bytes = os.fstat(descriptor).st_size
        if found_bytes != piece.size_bytes:
            os.close(descriptor)
            return PieceFault(f"it has {found_bytes} bytes, expected {piece.size_bytes}")
        return _chunks(descriptor, piece)

    def read_whole(self, piece: Piece) -> memoryview | PieceFault:
        """`read` at once."""
        found = self.read(piece)
        if isinstance(found, PieceFault):
            return found
        parts: list[bytes] = []
        for each in found:
            if isinstance(each, PieceFault):
                return each
            parts.append(each)
        return whole_piece(memoryview(b"".join(parts)), piece)

    def expire(self, *, older_than_seconds: float) -> int:
        """Deletes files not written for so long, by this machine's clock; returns their number."""
        before, deleted = time.time() - older_than_seconds, 0
        for batch in self._folder.glob("*/*"):
            with suppress(OSError):
                for file in batch.iterdir():
                    if file.stat().st_mtime < before:
                        file.unlink(missing_ok=True)
                        deleted += 1
                # Those that are not empty stay.
                batch.rmdir()
                batch.parent.rmdir()
        return deleted

    def totals(self) -> tuple[int, int]:
        """Number of data files, and their bytes."""
        sizes = []
        for file in self._folder.glob("*/*/*.data"):
            with suppress(OSError):
                sizes.append(file.stat().st_size)
        return len(sizes), sum(sizes)

    def _place(self, path: str) -> Path:
        if not PATH.fullmatch(path):
            raise ValueError(f"{path!r} is not the path of a map output")
        return self._folder / path


def _chunks(descriptor: int, piece: Piece) -> Iterator[bytes | PieceFault]:
    """Closes the file; fewer bytes if it is cut or its disk fails."""
    try:
        at = piece.start
        while at < piece.stop:
            # Read, not mapped: a mapped file that is cut while it is read would end the process.
            data = os.pread(descriptor, min(CHUNK_BYTES, piece.stop - at), at)
            if not data:
                return
            at += len(data)
            yield data
    except OSError as error:
        yield PieceFault(f"it cannot be read: {one_line(error)}")
    finally:
        os.close(descriptor)
