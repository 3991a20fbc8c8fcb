"""A local file that is to become a value."""

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from icefloe.errors import TransientError


def file_size(path: Path, url: str) -> int:
    """The size in bytes.

    Args:
        path: of the file.
        url: of the value, for the error.

    Raises:
        TransientError: the file cannot be read.
    """
    with _reading(path, url):
        return path.stat().st_size


def mapped_file(path: Path, url: str) -> mmap.mmap:
    """The content, mapped into memory. The system can take the memory back at any time: its pages are the file's.

    Args:
        path: of a file that is not empty.
        url: of the value, for the error.

    Raises:
        TransientError: the file cannot be read.
    """
    with _reading(path, url), path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


@contextmanager
def _reading(path: Path, url: str) -> Iterator[None]:
    try:
        yield
    except OSError as cause:
        raise TransientError(f"cannot read the file {path} to store it as {url}: {cause.strerror}") from cause
