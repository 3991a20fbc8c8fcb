"""The contract of a store: bytes under keys at one place; its names, its keys, and ranges of its values.

Keys are relative paths with ``/`` between their segments.
"""

import mmap
import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Final, Self

from icefloe.errors import TerminalError, TransientError

__all__ = ["ChildStore", "KeyMissingError", "RangeMissingError", "Store", "StoredObject", "join_url", "one_store"]


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


def content_of(data: bytes | Path, url: str) -> bytes | mmap.mmap:
    """A value's bytes. A file is mapped into memory: the system can take its pages back at any time."""
    if isinstance(data, bytes) or not file_size(data, url):
        return data if isinstance(data, bytes) else b""
    with _reading(data, url), data.open("rb") as file:
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


_ONE_SCHEME: Final[Mapping[str, str]] = {
    "s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "wasb": "abfs", "wasbs": "abfs",
}  # fmt: skip
"""Schemes that name the same store, with the scheme that is used for it here."""
_OF_HOSTS: Final = frozenset({"hdfs", "viewfs", "http", "https"})


def one_store(scheme: str, authority: str) -> tuple[str, str]:
    """Scheme and authority as they compare: hosts without case, buckets and containers with it.

    >>> one_store("S3A", "Lake"), one_store("file", "LocalHost"), one_store("hdfs", "Names:8020")
    (('s3', 'Lake'), ('file', ''), ('hdfs', 'names:8020'))
    >>> one_store("wasbs", "box@Account.blob.core.windows.net")
    ('abfs', 'box@account.dfs.core.windows.net')
    """
    scheme = _ONE_SCHEME.get(scheme.lower(), scheme.lower())
    if scheme == "file":
        return scheme, "" if authority.lower() == "localhost" else authority
    if scheme in _OF_HOSTS:
        return scheme, authority.lower()
    if scheme == "abfs":
        container, at, host = authority.rpartition("@")
        return scheme, f"{container}{at}{host.lower().replace('.blob.core.', '.dfs.core.')}"
    return scheme, authority


class KeyMissingError(TerminalError):
    """Nothing is stored under a key."""

    url: str
    key: str

    @classmethod
    def of(cls, url: str, key: str) -> Self:
        """The error of one key."""
        return cls(f"there is no object {join_url(url, key)}", url=url, key=key)


class RangeMissingError(TransientError):
    """A value ends before the end of a requested range.

    Transient: its writer may write it again.
    """

    url: str
    key: str
    size_bytes: int

    @classmethod
    def of(cls, url: str, key: str, size_bytes: int, stop: int) -> Self:
        """The error of a value that ends before ``stop``."""
        return cls(
            f"{join_url(url, key)} has {size_bytes} bytes, but bytes up to {stop} were expected: it was cut short; "
            "write it again", url=url, key=key, size_bytes=size_bytes,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """The entry of one object in a listing."""

    key: str
    size_bytes: int
    modified: datetime


class Store(ABC):
    """Bytes under keys below one URL. Keys are relative, with ``/`` between their segments (see `check_key`).

    A value is always one whole value of one `put` or `create`. No key may be a folder of another key: stores differ
    there. `TransientError`, which may go away on retry, comes after retries with back-off inside the store's budget.
    Several threads may use a store at once.
    """

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    @staticmethod
    def of_package(scheme: str) -> EntryPoint | None:
        """The entry point ``icefloe.stores`` for URLs of a scheme; None: no installed package has one."""
        return next(iter(entry_points(group="icefloe.stores", name=scheme)), None)

    @property
    @abstractmethod
    def url(self) -> str:
        """URL of the store, without a final slash and without credentials."""

    @property
    def created_in(self) -> str:
        """Address of the table of DynamoDB in which values are created; empty if there is none."""
        return ""

    @abstractmethod
    def get(self, key: str) -> bytes:
        """The value; raises `KeyMissingError` if there is none."""

    def find(self, key: str) -> bytes | None:
        """The value; None if there is none."""
        try:
            return self.get(key)
        except KeyMissingError:
            return None

    @abstractmethod
    def get_ranges(self, key: str, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Parts of the value, one per half-open byte range, in their order; empty ranges are not looked up.

        Raises:
            KeyMissingError: there is no value.
            RangeMissingError: the value ends before a range does.
        """

    @abstractmethod
    def put(self, key: str, data: bytes | Path) -> None:
        """Stores a value, in place of any other; a file is streamed, never held whole."""

    @abstractmethod
    def create(self, key: str, data: bytes | Path) -> bool:
        """Stores a value only if there is none; of many callers at most one gets True.

        It takes one request, which no remote store takes above 5 GB. A file is not held in memory.

        False: there is a value, another caller's, or this call's if its first answer was lost and it was sent again.
        Read the value to learn whose it is.
        """

    @abstractmethod
    def size(self, key: str) -> int | None:
        """The size of the value in bytes; None if there is none."""

    @abstractmethod
    def delete(self, keys: Iterable[str]) -> None:
        """Deletes values; keys without one are passed over."""

    @abstractmethod
    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Every object below a key taken as a folder, all for the empty prefix; in no order."""

    def remove_unfinished(self, prefix: str = "", *, is_over: bool = False) -> int:  # noqa: ARG002 - most keep nothing
        """Removes unfinished objects that dead writers left below a folder, and returns their number.

        Only local disk keeps such files; listings never show them.

        Args:
            is_over: nobody may write there any more: those of living writers are removed too, and these writers fail.
        """
        return 0

    def child(self, prefix: str) -> "Store":
        """The part of this store below a key taken as a folder."""
        return ChildStore(self, prefix)


class ChildStore(Store):
    """The part of another store below a folder; errors name the whole key."""

    def __init__(self, parent: Store, folder: str) -> None:
        self._parent = parent
        self._folder = check_folder(folder.removesuffix("/"))

    @property
    def url(self) -> str:
        """See `Store`."""
        return join_url(self._parent.url, self._folder)

    @property
    def created_in(self) -> str:
        """See `Store`."""
        return self._parent.created_in

    def get(self, key: str) -> bytes:
        """See `Store`."""
        return self._parent.get(self._whole(key))

    def get_ranges(self, key: str, ranges: Sequence[ByteRange]) -> list[bytes]:
        """See `Store`."""
        return self._parent.get_ranges(self._whole(key), ranges)

    def put(self, key: str, data: bytes | Path) -> None:
        """See `Store`."""
        self._parent.put(self._whole(key), data)

    def create(self, key: str, data: bytes | Path) -> bool:
        """See `Store`."""
        return self._parent.create(self._whole(key), data)

    def size(self, key: str) -> int | None:
        """See `Store`."""
        return self._parent.size(self._whole(key))

    def delete(self, keys: Iterable[str]) -> None:
        """See `Store`."""
        self._parent.delete(self._whole(key) for key in keys)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """See `Store`."""
        for each in self._parent.list(self._below(prefix)):
            yield replace(each, key=each.key.removeprefix(f"{self._folder}/"))

    def remove_unfinished(self, prefix: str = "", *, is_over: bool = False) -> int:
        """See `Store`."""
        return self._parent.remove_unfinished(self._below(prefix), is_over=is_over)

    def _below(self, prefix: str) -> str:
        return f"{self._folder}/{prefix}" if prefix else self._folder

    def _whole(self, key: str) -> str:
        return f"{self._folder}/{check_key(key)}"
