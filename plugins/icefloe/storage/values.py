"""The bytes of values: ranges of them, and local files that are to become values."""

import mmap
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from icefloe.errors import TransientError

__all__ = ["ByteRange"]

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
