"""The contract of a store: bytes under keys at one place."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Self

from icefloe.errors import TerminalError, TransientError
from icefloe.storage.keys import check_folder, check_key, join_url
from icefloe.storage.requests import AT_ONCE
from icefloe.storage.values import ByteRange

__all__ = ["KeyMissingError", "RangeMissingError", "Store", "StoredObject"]


class KeyMissingError(TerminalError):
    """Nothing is stored under a key. Facts: ``url`` of the store, ``key``."""

    url: str
    key: str

    @classmethod
    def of(cls, url: str, key: str) -> Self:
        """The error of one key."""
        return cls(f"there is no object {join_url(url, key)}", url=url, key=key)


class RangeMissingError(TransientError):
    """A value ends before the end of a requested range. Facts: ``url`` of the store, ``key``, ``size_bytes``.

    It is transient because the writer of the value may write it again.
    """

    url: str
    key: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """The entry of one object in a listing."""

    key: str
    size_bytes: int
    modified: datetime


class Store(ABC):
    """Bytes under keys below one URL. Keys are relative, with ``/`` between their segments (see `check_key`).

    A visible value is always one whole value of one `put` or `create`. No key may be a folder of another key, because
    stores handle that differently. Errors that may go away on retry are `TransientError`; they are raised after retries
    with back-off inside the store's own budget. Several threads may use a store at once.
    """

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    @property
    @abstractmethod
    def url(self) -> str:
        """URL of the store, without a final slash and without credentials."""

    @property
    def requests_at_once(self) -> int:
        """Number of requests that are sent at the same time if they do not depend on each other."""
        return AT_ONCE

    @property
    def created_in(self) -> str:
        """Address of the table of DynamoDB in which values are created; empty if there is none."""
        return ""

    @abstractmethod
    def get(self, key: str) -> bytes:
        """The value.

        Raises:
            KeyMissingError: there is none.
        """

    def find(self, key: str) -> bytes | None:
        """The value; None if there is none."""
        try:
            return self.get(key)
        except KeyMissingError:
            return None

    @abstractmethod
    def get_ranges(self, key: str, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Parts of the value, one per half-open range ``(start, stop)`` of its bytes, in the order of the ranges.

        An empty range gives no bytes and is not looked up.

        Raises:
            KeyMissingError: there is no value.
            RangeMissingError: the value ends before a range does.
        """

    @abstractmethod
    def put(self, key: str, data: bytes | Path) -> None:
        """Stores a value, in place of any other; the file at a path is streamed, never held whole."""

    @abstractmethod
    def create(self, key: str, data: bytes | Path) -> bool:
        """Stores a value only if there is none; of many callers at most one gets True.

        A value goes to a remote store in one request, which no store takes above 5 GB. A file is not held in memory
        meanwhile.

        False says that there is a value already. It is another caller's, or this very call's if its first answer was
        lost on the way and it was sent again. Read the value to learn whose it is.
        """

    @abstractmethod
    def size(self, key: str) -> int | None:
        """The size of the value in bytes; None if there is none."""

    @abstractmethod
    def delete(self, keys: Iterable[str]) -> None:
        """Deletes values; keys without one are passed over."""

    @abstractmethod
    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Every object below a key taken as a folder; all of them for the empty prefix. No order is promised."""

    def list_here(self, prefix: str) -> Iterator[StoredObject]:
        """Every object in a key taken as a folder, and none of its folders; in no order."""
        depth = prefix.count("/") + bool(prefix)
        return (each for each in self.list(prefix) if each.key.count("/") == depth)

    def folders(self, prefix: str) -> set[str]:
        """The folders in a key taken as a folder, as whole keys. Local disk may name some that hold nothing."""
        depth = prefix.count("/") + bool(prefix)
        parts = (each.key.split("/") for each in self.list(prefix))
        return {"/".join(names[: depth + 1]) for names in parts if len(names) > depth + 1}

    def remove_unfinished(self, prefix: str = "", *, is_over: bool = False) -> int:  # noqa: ARG002 - most keep nothing
        """Removes unfinished objects that dead writers left below a folder, and returns their number.

        Only local disk keeps files that cost room; listings never show them.

        Args:
            prefix: the folder; empty for the whole store.
            is_over: nobody may write there any more: unfinished objects of living writers are removed too, and these
                writers fail.
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
        """URL of this part of the store; see `Store`."""
        return join_url(self._parent.url, self._folder)

    @property
    def requests_at_once(self) -> int:
        """Number of requests that are sent at the same time; see `Store`."""
        return self._parent.requests_at_once

    @property
    def created_in(self) -> str:
        """Address of the table of DynamoDB in which values are created; see `Store`."""
        return self._parent.created_in

    def get(self, key: str) -> bytes:
        """The value; see `Store`."""
        return self._parent.get(self._whole(key))

    def get_ranges(self, key: str, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Parts of the value; see `Store`."""
        return self._parent.get_ranges(self._whole(key), ranges)

    def put(self, key: str, data: bytes | Path) -> None:
        """Stores a value; see `Store`."""
        self._parent.put(self._whole(key), data)

    def create(self, key: str, data: bytes | Path) -> bool:
        """Stores a value only if there is none; see `Store`."""
        return self._parent.create(self._whole(key), data)

    def size(self, key: str) -> int | None:
        """The size of the value; None if there is none."""
        return self._parent.size(self._whole(key))

    def delete(self, keys: Iterable[str]) -> None:
        """Deletes values; see `Store`."""
        self._parent.delete(self._whole(key) for key in keys)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Every object below a key taken as a folder; see `Store`."""
        return self._own(self._parent.list(self._below(prefix)))

    def list_here(self, prefix: str) -> Iterator[StoredObject]:
        """Every object in a key taken as a folder, and none of its folders; see `Store`."""
        return self._own(self._parent.list_here(self._below(prefix)))

    def folders(self, prefix: str) -> set[str]:
        """The folders in a key taken as a folder; see `Store`."""
        return {each.removeprefix(f"{self._folder}/") for each in self._parent.folders(self._below(prefix))}

    def remove_unfinished(self, prefix: str = "", *, is_over: bool = False) -> int:
        """Removes unfinished objects that dead writers left; see `Store`."""
        return self._parent.remove_unfinished(self._below(prefix), is_over=is_over)

    def _below(self, prefix: str) -> str:
        return f"{self._folder}/{prefix}" if prefix else self._folder

    def _own(self, listed: Iterable[StoredObject]) -> Iterator[StoredObject]:
        for each in listed:
            yield replace(each, key=each.key.removeprefix(f"{self._folder}/"))

    def _whole(self, key: str) -> str:
        return f"{self._folder}/{check_key(key)}"
