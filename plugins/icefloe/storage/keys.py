"""Keys of stored objects, relative paths with ``/`` between their segments; ranges and files of their values."""

import mmap
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from icefloe.errors import TerminalError, TransientError

__all__ = ["join_url"]

ByteRange = tuple[int, int]
"""Half-open: ``(start, stop)``."""


def coalesce_ranges(ranges: Sequence[ByteRange], *, gap_bytes: int) -> list[ByteRange]:
    """The ranges to fetch: ascending, more than ``gap_bytes`` apart, covering the wanted ones.

    >>> coalesce_ranges([(90, 95), (0, 4), (6, 8), (50, 50)], gap_bytes=2)
    [(0, 8), (90, 95)]
    """
    fetched: list[ByteRange] = []
    #   wanted    aaa  bb    ccc                  d
    #   fetched   --------------                  -       gaps up to gap_bytes cost less than a request
    for start, stop in sorted(ranges):
        if not 0 <= start <= stop:
            raise ValueError(f"a byte range is (start, stop) with 0 <= start <= stop, found ({start}, {stop})")
        if fetched and start <= fetched[-1][1] + gap_bytes and start < stop:
            fetched[-1] = (fetched[-1][0], max(stop, fetched[-1][1]))
        elif start < stop:
            fetched.append((start, stop))
    return fetched


def cut_ranges(fetched: Sequence[ByteRange], parts: Sequence[memoryview], ranges: Sequence[ByteRange]) -> list[bytes]:
    """The wanted ranges out of the fetched parts.

    >>> cut_ranges([(10, 14)], [memoryview(b"abcd")], [(12, 14), (10, 10)])
    [b'cd', b'']
    """
    starts = [start for start, _ in fetched]

    def cut(start: int, stop: int) -> bytes:
        if start == stop:
            return b""
        # A wanted range lies inside of one fetched range, the last that begins before or with it.
        number = bisect_right(starts, start) - 1
        offset = starts[number]
        return bytes(parts[number][start - offset : stop - offset])

    return [cut(start, stop) for start, stop in ranges]


def file_size(path: Path, url: str) -> int:
    with _reading(path, url):
        return path.stat().st_size


def mapped_file(path: Path, url: str) -> mmap.mmap:
    """The content, mapped into memory: the system can take the file's pages back at any time."""
    with _reading(path, url), path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


@contextmanager
def _reading(path: Path, url: str) -> Iterator[None]:
    try:
        yield
    except OSError as cause:
        raise TransientError(f"cannot read the file {path} to store it as {url}: {cause.strerror}") from cause


_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_NO_TEXT: Final = re.compile(r"[\ud800-\udfff]")
"""Bytes of a name on disk that are not UTF-8, as Python has them."""
# A local store keeps a value that is still being written under a name that ends so; no key may look like that anywhere.
_RESERVED_END: Final = re.compile(r"#\d+\Z")


def is_unfinished(key: str) -> bool:
    """True for the name of an unfinished write, which is no key.

    >>> is_unfinished("7.json#1"), is_unfinished("7#.json")
    (True, False)
    """
    return _RESERVED_END.search(key) is not None


def is_foreign(name: str) -> bool:
    r"""True for the name of a file or folder that no key leads to.

    >>> is_foreign("7.json"), is_foreign("7\n"), is_foreign(b"\xff".decode(errors="surrogateescape"))
    (False, True, True)
    """
    return _CONTROL.search(name) is not None or _NO_TEXT.search(name) is not None


def check_key(key: str) -> str:
    """The key, if every kind of store can hold it.

    >>> check_key("offsets/7.json")
    'offsets/7.json'
    """
    if is_unfinished(key):
        raise TerminalError(
            f"{key!r} cannot be the key of a stored object: '#' and digits at the end mark an unfinished write",
            key=key,
        )
    return check_folder(key)


def check_folder(folder: str) -> str:
    if _CONTROL.search(folder) or any(segment in ("", ".", "..") for segment in folder.split("/")):
        raise TerminalError(
            f"{folder!r} cannot be the key of a stored object or a folder of them: expected segments joined by single "
            "slashes, none of them '.' or '..', and no control characters",
            key=folder,
        )
    return folder


def join_url(base: str, key: str) -> str:
    """The URL of a key below a URL; opening it leads to the same place again.

    >>> join_url("s3://lake/shuffle", "7/a b%"), join_url("file:///var", "a b%")
    ('s3://lake/shuffle/7/a b%', 'file:///var/a b%25')
    """
    if base.startswith("file:"):
        key = key.replace("%", "%25")
    return f"{base.removesuffix('/')}/{key}" if key else base
