"""The contract of a store: bytes under keys at one place."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Self

from icefloe.errors import TerminalError, TransientError
from icefloe.storage.keys import ByteRange, check_folder, check_key, join_url
from icefloe.storage.requests import AT_ONCE

__all__ = ["KeyMissingError", "RangeMissingError", "Store", "StoredObject"]


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

    @property
    @abstractmethod
    def url(self) -> str:
        """URL of the store, without a final slash and without credentials."""

    @property
    def requests_at_once(self) -> int:
        """Number of independent requests that are sent at the same time."""
        return AT_ONCE

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

    def list_here(self, prefix: str) -> Iterator[StoredObject]:
        """Every object in a key taken as a folder, and none of its folders; in no order."""
        depth = prefix.count("/") + bool(prefix)
        return (each for each in self.list(prefix) if each.key.count("/") == depth)

    def folders(self, prefix: str) -> set[str]:
        """The folders in a key taken as a folder, as whole keys. Local disk may name some that are empty."""
        depth = prefix.count("/") + bool(prefix)
        parts = (each.key.split("/") for each in self.list(prefix))
        return {"/".join(names[: depth + 1]) for names in parts if len(names) > depth + 1}

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
        return join_url(self._parent.url, self._folder)

    @property
    def requests_at_once(self) -> int:
        return self._parent.requests_at_once

    @property
    def created_in(self) -> str:
        return self._parent.created_in

    def get(self, key: str) -> bytes:
        return self._parent.get(self._whole(key))

    def get_ranges(self, key: str, ranges: Sequence[ByteRange]) -> list[bytes]:
        return self._parent.get_ranges(self._whole(key), ranges)

    def put(self, key: str, data: bytes | Path) -> None:
        self._parent.put(self._whole(key), data)

    def create(self, key: str, data: bytes | Path) -> bool:
        return self._parent.create(self._whole(key), data)

    def size(self, key: str) -> int | None:
        return self._parent.size(self._whole(key))

    def delete(self, keys: Iterable[str]) -> None:
        self._parent.delete(self._whole(key) for key in keys)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        return self._own(self._parent.list(self._below(prefix)))

    def list_here(self, prefix: str) -> Iterator[StoredObject]:
        return self._own(self._parent.list_here(self._below(prefix)))

    def folders(self, prefix: str) -> set[str]:
        return {each.removeprefix(f"{self._folder}/") for each in self._parent.folders(self._below(prefix))}

    def remove_unfinished(self, prefix: str = "", *, is_over: bool = False) -> int:
        return self._parent.remove_unfinished(self._below(prefix), is_over=is_over)

    def _below(self, prefix: str) -> str:
        return f"{self._folder}/{prefix}" if prefix else self._folder

    def _own(self, listed: Iterable[StoredObject]) -> Iterator[StoredObject]:
        for each in listed:
            yield replace(each, key=each.key.removeprefix(f"{self._folder}/"))

    def _whole(self, key: str) -> str:
        return f"{self._folder}/{check_key(key)}"
