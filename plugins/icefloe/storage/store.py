"""The contract of a store: bytes under keys at one place."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Self

from icefloe.errors import TerminalError

__all__ = ["KeyMissingError", "Store", "StoredObject"]


class KeyMissingError(TerminalError):
    """Nothing is stored under a key. Facts: ``url``, ``key``."""

    @classmethod
    def of(cls, url: str, key: str) -> Self:
        """The error of one key."""
        return cls(f"there is no object {url}/{key}", url=url, key=key)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """What a listing says of one object."""

    key: str
    size_bytes: int
    modified: datetime


class Store(ABC):
    """Bytes under keys below one URL. Keys are relative, with ``/`` between their parts.

    What is visible under a key is always one whole value of one `put` or `create`. Errors that another try may not
    meet are `TransientError`, after retries with back-off inside the store's own budget.
    """

    @property
    @abstractmethod
    def url(self) -> str:
        """Where the store is, without a final slash and without credentials."""

    @abstractmethod
    def get(self, key: str) -> bytes:
        """The value.

        Raises:
            KeyMissingError: there is none.
        """

    @abstractmethod
    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Parts of the value, one per half-open range ``(start, stop)`` of its bytes.

        Raises:
            KeyMissingError: there is no value.
            TransientError: the value ends before a range does.
        """

    @abstractmethod
    def put(self, key: str, data: bytes | Path) -> None:
        """Stores a value, in place of any other; a `Path` is streamed from local disk."""

    @abstractmethod
    def create(self, key: str, data: bytes) -> bool:
        """Stores a value only if there is none; of many callers exactly one is told True."""

    @abstractmethod
    def size(self, key: str) -> int | None:
        """The size of the value in bytes; None where there is none."""

    @abstractmethod
    def delete(self, keys: Iterable[str]) -> None:
        """Deletes values; keys without one are passed over."""

    @abstractmethod
    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Every object below a key taken as a folder; all of them for the empty prefix. No order is promised."""

    @abstractmethod
    def child(self, prefix: str) -> "Store":
        """The part of this store below a key taken as a folder."""
