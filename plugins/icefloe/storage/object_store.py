"""Stores on obstore: local disk, memory, S3, GCS and Azure."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import obstore
from obstore import exceptions

from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.storage.store import KeyMissingError, Store, StoredObject

__all__ = ["ObjectStore", "translated"]

_DENIED = (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError, PermissionError)


class ObjectStore(Store):
    """A store on one of obstore's.

    Local disk: a value appears by an atomic rename or link and survives the end of the process; it is not forced to
    the medium, so a loss of power may take the newest values.

    Args:
        url: of the place, for people and errors.
        connect: gives obstore's store; told whether to make the place, None where it does not exist and is not made.
        prefix: of every key, empty or ending with ``/``.
        is_local: whether a fault of no known type is one of this machine's disk, which another try meets again.
    """

    def __init__(
        self, url: str, connect: Callable[[bool], Any | None], *, prefix: str = "", is_local: bool = False
    ) -> None:
        self._url = url
        self._connect = connect
        self._prefix = prefix
        self._is_local = is_local

    def __repr__(self) -> str:
        return f"ObjectStore({self._url!r})"

    @property
    def url(self) -> str:
        """Where the store is."""
        return self._url

    def get(self, key: str) -> bytes:
        """The value; see `Store`."""
        with self._translated("read", key):
            return bytes(obstore.get(self._existing(key), self._prefix + key).bytes())

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Parts of the value; see `Store`."""
        if not ranges:
            return []
        starts, stops = zip(*ranges, strict=True)
        with self._translated("read", key):
            parts = obstore.get_ranges(self._existing(key), self._prefix + key, starts=starts, ends=stops)
        found = [bytes(part) for part in parts]
        for part, (start, stop) in zip(found, ranges, strict=True):
            if len(part) != stop - start:
                raise TransientError(
                    f"{self._url}/{key} ends before byte {stop}: {len(part)} of {stop - start} bytes came",
                    url=self._url,
                    key=key,
                )
        return found

    def put(self, key: str, data: bytes | Path) -> None:
        """Stores a value; a large `Path` goes in several parts and appears at once."""
        with self._translated("write", key):
            obstore.put(self._made(), self._prefix + key, data)

    def create(self, key: str, data: bytes) -> bool:
        """Stores a value only if there is none."""
        try:
            with self._translated("create", key):
                obstore.put(self._made(), self._prefix + key, data, mode="create", use_multipart=False)
        except exceptions.AlreadyExistsError:
            return False
        return True

    def size(self, key: str) -> int | None:
        """The size of the value; None where there is none."""
        try:
            with self._translated("look for", key):
                return int(obstore.head(self._existing(key), self._prefix + key)["size"])
        except KeyMissingError:
            return None

    def delete(self, keys: Iterable[str]) -> None:
        """Deletes values, one by one."""
        store = self._connect(False)
        if store is None:
            return
        for key in keys:
            try:
                with self._translated("delete", key):
                    obstore.delete(store, self._prefix + key)
            except KeyMissingError:
                continue

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Every object below a key."""
        store = self._connect(False)
        if store is None:
            return
        with self._translated("list", prefix):
            for chunk in obstore.list(store, (self._prefix + prefix).rstrip("/") or None):
                for found in chunk:
                    yield StoredObject(
                        key=found["path"].removeprefix(self._prefix),
                        size_bytes=found["size"],
                        modified=found["last_modified"],
                    )

    def child(self, prefix: str) -> "ObjectStore":
        """The part of this store below a key."""
        return ObjectStore(
            f"{self._url}/{prefix}", self._connect, prefix=f"{self._prefix}{prefix}/", is_local=self._is_local
        )

    def _existing(self, key: str) -> Any:
        store = self._connect(False)
        if store is None:
            raise KeyMissingError.of(self._url, key)
        return store

    def _made(self) -> Any:
        return self._connect(True)

    @contextmanager
    def _translated(self, action: str, key: str) -> Iterator[None]:
        with translated(self._url, action, key, is_local=self._is_local):
            yield


@contextmanager
def translated(url: str, action: str, key: str, *, is_local: bool) -> Iterator[None]:
    """Turns obstore's errors into ours, by their type; AlreadyExistsError passes."""
    facts = {"url": url, "key": key}
    try:
        yield
    except (IcefloeError, exceptions.AlreadyExistsError):
        raise
    except (exceptions.NotFoundError, FileNotFoundError) as cause:
        raise KeyMissingError.of(url, key) from cause
    except _DENIED as cause:
        raise TerminalError(
            f"cannot {action} {url}/{key}: access is denied; check the credentials and permissions of this place",
            **facts,
        ) from cause
    except (exceptions.BaseError, OSError, ValueError) as cause:
        if is_local or not isinstance(cause, exceptions.GenericError | OSError):
            raise TerminalError(
                f"cannot {action} {url}/{key}: {_first_line(cause)}; check that this place exists, has room and can be "
                "written by this user",
                **facts,
            ) from cause
        raise TransientError(
            f"cannot {action} {url}/{key}: the store did not answer as expected ({type(cause).__name__}); try again, "
            "and check endpoint and network if it goes on",
            **facts,
        ) from cause


def _first_line(cause: BaseException) -> str:
    return str(cause).strip().partition("\n")[0]
