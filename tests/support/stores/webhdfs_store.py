"""A store in HDFS, over WebHDFS: ``webhdfs://namenode:9870``.

HDFS shows a file while it is being written. So a value is written next to its key, under the name of an unfinished
write, and renamed: over the value by `put`, only to a free name by `create`.
"""

import json
import random
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from http.client import HTTPException
from pathlib import Path
from string import punctuation
from typing import Any
from urllib.parse import quote, urlencode

from icefloe.errors import TerminalError, TransientError
from icefloe.storage.store import (
    KeyMissingError,
    RangeMissingError,
    Store,
    StoredObject,
    check_key,
    coalesce_ranges,
    content_of,
    cut_ranges,
    is_unfinished,
    join_url,
)

__all__ = ["WebhdfsStore", "open_webhdfs"]

_TRIES = 4


class WebhdfsStore(Store):
    """All files of a name node."""

    def __init__(self, url: str, *, user: str, patience: float) -> None:
        self._url, self._user, self._patience = url, user, patience

    @property
    def url(self) -> str:
        return self._url

    def get(self, key: str) -> bytes:
        try:
            return self._ask("GET", "OPEN", check_key(key))
        except FileNotFoundError:
            raise KeyMissingError.of(self._url, key) from None

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        fetched = coalesce_ranges(ranges, gap_bytes=1 << 16)
        if not fetched:
            return [b"" for _ in ranges]
        size = self.size(key)
        if size is None:
            raise KeyMissingError.of(self._url, key)
        if size < fetched[-1][1]:
            raise RangeMissingError.of(self._url, key, size, fetched[-1][1])
        parts = [self._ask("GET", "OPEN", key, offset=start, length=stop - start) for start, stop in fetched]
        return cut_ranges(fetched, [memoryview(part) for part in parts], ranges)

    def put(self, key: str, data: bytes | Path) -> None:
        self._rename(self._written(key, data), key, "OVERWRITE")

    def create(self, key: str, data: bytes | Path) -> bool:
        if self.size(key) is not None:
            return False
        unfinished = self._written(key, data)
        try:
            self._rename(unfinished, key, "NONE")
        except FileExistsError:
            self._ask("DELETE", "DELETE", unfinished)
            return False
        return True

    def size(self, key: str) -> int | None:
        try:
            found = json.loads(self._ask("GET", "GETFILESTATUS", check_key(key)))["FileStatus"]
        except FileNotFoundError:
            return None
        return int(found["length"]) if found["type"] == "FILE" else None

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._ask("DELETE", "DELETE", check_key(key))

    def list(self, prefix: str) -> Iterator[StoredObject]:
        return (each for each in self._files(prefix) if not is_unfinished(each.key))

    def remove_unfinished(self, prefix: str = "", *, is_over: bool = False) -> int:
        # No writer takes a day for one value.
        before = datetime.now(UTC) - timedelta(days=1)
        files = [each for each in self._files(prefix) if is_unfinished(each.key)]
        dead = [each.key for each in files if is_over or each.modified < before]
        for key in dead:
            self._ask("DELETE", "DELETE", key)
        return len(dead)

    def _files(self, prefix: str) -> Iterator[StoredObject]:
        folder = prefix.rstrip("/")
        try:
            found = json.loads(self._ask("GET", "LISTSTATUS", folder))["FileStatuses"]["FileStatus"]
        except FileNotFoundError:
            return
        for each in found:
            key = f"{folder}/{each['pathSuffix']}".lstrip("/")
            if each["type"] == "DIRECTORY":
                yield from self._files(key)
            elif each["pathSuffix"]:
                modified = datetime.fromtimestamp(each["modificationTime"] / 1000, UTC)
                yield StoredObject(key=key, size_bytes=each["length"], modified=modified)

    def _written(self, key: str, data: bytes | Path) -> str:
        """The key of the value while it has no name."""
        unfinished = f"{check_key(key)}#{random.getrandbits(63)}"
        content = content_of(data, join_url(self._url, key))
        # The answer names a data node, which takes the bytes.
        place = json.loads(self._ask("PUT", "CREATE", unfinished, noredirect="true", overwrite="true"))["Location"]
        # HDFS leaves other letters than ASCII as they are.
        self._send("PUT", quote(place, safe=punctuation), bytes(content))
        return unfinished

    def _rename(self, key: str, to: str, options: str) -> None:
        try:
            self._ask("PUT", "RENAME", key, destination=f"/{to}", renameoptions=options)
        except FileNotFoundError as cause:
            # An earlier try may have renamed it, and its answer was lost.
            raise TransientError(f"{self._url} lost {to} while it was written; try again") from cause

    def _ask(self, method: str, operation: str, key: str, **parameters: object) -> bytes:
        query = urlencode({"op": operation, "user.name": self._user, **parameters})
        address = self._url.replace("webhdfs:", "http:", 1)
        return self._send(method, f"{address}/webhdfs/v1/{quote(key)}?{query}")

    def _send(self, method: str, url: str, data: bytes | None = None) -> bytes:
        for left in reversed(range(_TRIES)):
            try:
                request = urllib.request.Request(url, data, {"Content-Type": "application/octet-stream"}, method=method)
                with urllib.request.urlopen(request, timeout=self._patience) as answer:
                    return bytes(answer.read())
            except urllib.error.HTTPError as error:
                _raise_remote(error, is_last=not left)
            except (OSError, HTTPException) as cause:
                # A value that is replaced while it is read ends too early.
                if not left:
                    raise TransientError(f"{self._url} does not answer: {type(cause).__name__}") from cause
        raise AssertionError("every try returns or raises")


def _raise_remote(error: urllib.error.HTTPError, *, is_last: bool) -> None:
    try:
        found: dict[str, Any] = json.loads(error.read())["RemoteException"]
    except (ValueError, KeyError, HTTPException):
        found = {"exception": str(error.code), "message": error.reason}
    if found["exception"] == "FileNotFoundException":
        raise FileNotFoundError from error
    if found["exception"] == "FileAlreadyExistsException":
        raise FileExistsError from error
    sentence = f"HDFS refused: {found['exception']}: {str(found['message']).partition(chr(10))[0]}"
    if is_last or error.code < 500:
        raise (TransientError if error.code >= 500 else TerminalError)(sentence) from error


def open_webhdfs(root_url: str, *, options: Mapping[str, str], patience: float) -> Store:
    """The entry point ``icefloe.stores`` for ``webhdfs://``; the option ``user`` names who asks."""
    return WebhdfsStore(root_url, user=options.get("user", "icefloe"), patience=patience)
