"""The folder of one machine: map tasks write it, readers and the server read it."""

import errno
import json
import logging
import os
import re
import shutil
import struct
import time
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from icefloe.errors import TerminalError, TransientError, one_line

__all__ = ["NodeLostError", "Piece", "PieceFault", "split_node_key"]

logger = logging.getLogger(__name__)

READ: Final = "read_pieces"
DELETE: Final = "delete_batch"
ROW_BYTES: Final = 12
"""Bytes of a message in addition to those of a row."""
MOST_MESSAGE_BYTES: Final = 3 << 20
"""A node sends 2 MiB of a file at once, with some small pieces. A reader refuses a longer message before it is read."""
BUSY: Final = b""
"""The message by which a node says that it is alive, and that it answers others first."""
_VERSION: Final = 1


class Piece(NamedTuple):
    """Some bytes of one data file: ``start`` to ``stop`` (exclusive).

    Attributes:
        path: below the folder of the node.
        size_bytes: of the whole file by its commit record; another size is damage.
    """

    path: str
    size_bytes: int
    start: int
    stop: int


class PieceFault(NamedTuple):
    """The reason why a node could not answer a piece; the map output must be made again."""

    reason: str


class NodeLostError(TransientError):
    """A node did not answer in time; ``is_busy`` if it answered others meanwhile."""

    reason: str
    is_busy: bool


def encode_pieces(pieces: Iterable[Piece]) -> bytes:
    """The ticket of a request.

    >>> encode_pieces([Piece("5f0c/7/0.0.a1.data", 90, 10, 20)])
    b'{"version":1,"pieces":[["5f0c/7/0.0.a1.data",90,10,20]]}'
    """
    return json.dumps({"version": _VERSION, "pieces": [list(each) for each in pieces]}, separators=(",", ":")).encode()


def decode_pieces(ticket: bytes) -> list[Piece]:
    """The pieces that a ticket asks for; they need not exist."""
    try:
        document: Any = json.loads(ticket)
        version, pieces = document["version"], [_piece(*each) for each in document["pieces"]]
    except (ValueError, TypeError, KeyError, RecursionError) as cause:
        raise ValueError("this is no request for pieces of map outputs") from cause
    if version != _VERSION:
        raise ValueError(f"this node answers requests of version {_VERSION}, and this one is of another")
    return pieces


def _piece(path: object, size_bytes: object, start: object, stop: object) -> Piece:
    if not isinstance(path, str) or not all(type(each) is int for each in (size_bytes, start, stop)):
        raise TypeError("a piece is a path and three numbers")
    return Piece(path, size_bytes, start, stop)  # type: ignore[arg-type]


def encode_rows(rows: Sequence[tuple[int, bool, bytes]]) -> bytes:
    heads = [number for place, is_fault, data in rows for number in (place, is_fault, len(data))]
    return b"".join((struct.pack(f">I{len(heads)}I", len(rows), *heads), *(data for *_, data in rows)))


def decode_rows(message: memoryview) -> Iterator[tuple[int, bool, memoryview]]:
    """The rows of a message, not copied."""
    try:
        count = int(np.frombuffer(message, ">u4", 1)[0])
        heads = np.frombuffer(message, ">u4", 3 * count, 4).reshape(count, 3).tolist()
    except ValueError as cause:
        raise ValueError("its node answered in another form") from cause
    at = 4 + ROW_BYTES * count
    if at + sum(length for *_, length in heads) != len(message):
        raise ValueError("its node answered in another form")
    for place, is_fault, length in heads:
        yield place, bool(is_fault), message[at : at + length]
        at += length


def whole_piece(data: memoryview, piece: Piece) -> memoryview | PieceFault:
    if len(data) != piece.stop - piece.start:
        return PieceFault(f"its node answered {len(data)} bytes for {piece.start} to {piece.stop}")
    return data


PATH: Final = re.compile(r"[0-9A-Za-z_-]+/[0-9]+/[0-9]+\.[0-9]+\.[0-9A-Za-z_-]+\.data")
"""The only paths that a node reads, writes or deletes: no segment can be ``..``, and none begins with a dot."""
BATCH: Final = re.compile(r"[0-9A-Za-z_-]+/[0-9]+")
"""The folder of a batch."""


def node_key(address: str, path: str) -> str:
    """The key of a file at a node.

    >>> node_key("worker-1:4995", "5f0c/7/0.0.a1.data")
    '//worker-1:4995/5f0c/7/0.0.a1.data'
    """
    return f"//{address}/{path}"


def split_node_key(key: str) -> tuple[str, str]:
    """The address of the node, empty if the file is in the store, and the path there.

    >>> split_node_key("//worker-1:4995/5f0c/7/0.0.a1.data"), split_node_key("0.0.a1.data")
    (('worker-1:4995', '5f0c/7/0.0.a1.data'), ('', '0.0.a1.data'))
    """
    if not key.startswith("//"):
        return "", key
    address, _, path = key.removeprefix("//").partition("/")
    return address, path


CHUNK_BYTES: Final = 2 << 20
"""Bytes of one file that are in memory for one request."""
_DRAINING: Final = ".draining"
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
"""Faults of the process that opens a file, and not of the file."""


OpenBatches: TypeAlias = Callable[[Collection[str]], Container[str]]
"""Of some batches, as ``<checkpoint id>/<number>``, those whose files are still needed."""


def none_open(_: Collection[str]) -> Container[str]:
    """Files go by their age alone."""
    return ()


class NodeFolder:
    """Data files below one local folder, as ``<checkpoint id>/<batch>/<map_id>.<generation>.<attempt>.data``."""

    # Nothing is synced to disk: a file lost in a crash of the machine is made again.
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def is_draining(self) -> bool:
        """True if nothing new shall be written here."""
        # A folder that this user may not enter is no reason to fail: what is put there goes to the store.
        return os.path.exists(self._folder / _DRAINING)  # noqa: PTH110 - Path.exists raises then

    def drain(self) -> int:
        """Refuses new files from now on, and counts those that batches need; a task that is writing may still end."""
        with _by_its_user(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / _DRAINING).touch()
            found = os.walk(self._folder, onerror=_raise_unless_gone)
            return sum(name.endswith(".data") for _, _, names in found for name in names)

    def refill(self) -> None:
        """Ends what `drain` began."""
        with _by_its_user(self._folder):
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

    def read(self, piece: Piece) -> Iterator[bytes | PieceFault]:
        """The bytes of a piece in chunks; a fault instead, or at their end, if they cannot be had."""
        if not PATH.fullmatch(piece.path):
            return iter([PieceFault("no map output has such a path")])
        if not 0 <= piece.start <= piece.stop <= piece.size_bytes:
            fault = f"bytes {piece.start} to {piece.stop} are not in a file of {piece.size_bytes} bytes"
            return iter([PieceFault(fault)])
        try:
            descriptor = os.open(f"{self._folder}/{piece.path}", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            if error.errno in _EXHAUSTED:
                # The map output is well.
                raise TransientError(
                    f"a map output of this machine cannot be opened: {one_line(error)}; raise the limit of open files "
                    "of this process (LimitNOFILE with systemd)"
                ) from error
            fault = "it is gone" if error.errno == errno.ENOENT else f"it cannot be opened: {one_line(error)}"
            return iter([PieceFault(fault)])
        found_bytes = os.fstat(descriptor).st_size
        if found_bytes != piece.size_bytes:
            os.close(descriptor)
            return iter([PieceFault(f"it has {found_bytes} bytes, expected {piece.size_bytes}")])
        return _chunks(descriptor, piece)

    def read_whole(self, piece: Piece) -> memoryview | PieceFault:
        """`read` at once."""
        parts: list[bytes] = []
        for each in self.read(piece):
            if isinstance(each, PieceFault):
                return each
            parts.append(each)
        return whole_piece(memoryview(b"".join(parts)), piece)

    def expire(self, *, older_than_seconds: float, open_batches: OpenBatches = none_open) -> int:
        """Deletes files not written for so long, by this machine's clock; returns their number.

        Args:
            open_batches: is given the batches that have such files; those that it returns keep theirs.
        """
        before, deleted = time.time() - older_than_seconds, 0
        old: dict[Path, list[Path]] = {}
        for batch in self._folder.glob("*/*"):
            with suppress(OSError):
                old[batch] = [file for file in batch.iterdir() if file.stat().st_mtime < before]
        names = {batch: batch.relative_to(self._folder).as_posix() for batch, files in old.items() if files}
        kept = open_batches(list(names.values())) if names else ()
        for batch, files in old.items():
            with suppress(OSError):
                for file in () if names.get(batch) in kept else files:
                    file.unlink(missing_ok=True)
                    deleted += 1
                # Those that are not empty stay.
                batch.rmdir()
                batch.parent.rmdir()
        return deleted

    def _place(self, path: str) -> Path:
        if not PATH.fullmatch(path):
            raise ValueError(f"{path!r} is not the path of a map output")
        return self._folder / path


@contextmanager
def _by_its_user(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TerminalError(
            f"the folder of this node cannot be changed or counted: {one_line(error)}; run this on its machine as the "
            f"user of its tasks, and see that {folder} is a folder on a disk with room"
        ) from error


def _raise_unless_gone(error: OSError) -> None:
    # The end of a batch may delete its folder meanwhile.
    if not isinstance(error, FileNotFoundError):
        raise error


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
