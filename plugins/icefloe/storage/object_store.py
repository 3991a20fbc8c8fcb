"""Stores on obstore: memory, S3, GCS and Azure; the base of local disk."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar

import obstore
from obstore import exceptions
from obstore import store as stores

from icefloe.errors import IcefloeError, TransientError
from icefloe.patience import answer_within
from icefloe.storage.clients import RemoteClients
from icefloe.storage.requests import AT_ONCE, RequestKind, Requests, map_parallel
from icefloe.storage.store import (
    ByteRange,
    KeyMissingError,
    RangeMissingError,
    Store,
    StoredObject,
    check_folder,
    check_key,
    coalesce_ranges,
    content_of,
    cut_ranges,
    file_size,
    join_url,
)
from icefloe.storage.store_errors import StorePlace

Found = TypeVar("Found")

_GAP_BYTES: Final = 2**20
_PART_BYTES: Final = 8 * 2**20
_PARTS_AT_ONCE: Final = 4
_MOST_PARTS: Final = 9_000
_MOST_AT_A_LOOK_BYTES: Final = 2**20
_KEYS_PER_DELETE: Final = 1_000
_PAUSES_SECONDS: Final = (0.05, 0.1, 0.2, 0.4, 0.8)


class ObjectStore(Store):
    """A store on one of obstore's stores, which ``connect`` gives."""

    def __init__(
        self,
        place: StorePlace,
        connect: Callable[[], stores.ObjectStore],
        requests: Requests | None = None,
        clients: RemoteClients | None = None,  # of a remote store, for values that are larger than a look
    ) -> None:
        self._place = place
        self._connect = connect
        self._requests = requests or Requests()
        self._clients = clients

    @property
    def url(self) -> str:
        return self._place.url

    def get(self, key: str) -> bytes:
        with self._asked("get", "read", check_key(key)):
            value = self._look_at(key)
            if value is not None:
                return value
        # It is asked for again, by a client that waits longer. It still counts as one request.
        with self._asked("get", "read", key, number=0, is_look=False):
            return bytes(obstore.get(self._downloads(), key).bytes())

    def get_ranges(self, key: str, ranges: Sequence[ByteRange]) -> list[bytes]:
        fetched = coalesce_ranges(ranges, gap_bytes=_GAP_BYTES)
        if not fetched:
            return [b""] * len(ranges)
        try:
            parts = self._fetch(check_key(key), fetched)
        except KeyMissingError:
            raise
        # Did the store fail, or was the value cut short? Only its size can tell: stores answer both in the same words.
        except IcefloeError:
            # A refusal of this look has no body, and so no reason.
            if (shortage := self._last_look(partial(self._shortage, key, fetched[-1][1]))) is not None:
                raise shortage from None
            raise
        if any(len(part) != stop - start for part, (start, stop) in zip(parts, fetched, strict=True)):
            raise self._shortage(key, fetched[-1][1]) or TransientError(
                f"the answer for {join_url(self.url, key)} broke off; try again", url=self.url, key=key
            )
        return cut_ranges(fetched, parts, ranges)

    def put(self, key: str, data: bytes | Path) -> None:
        size_bytes = self._size_of(data, key)
        with self._asked("put", "write", check_key(key), is_look=size_bytes <= _MOST_AT_A_LOOK_BYTES):
            self._replace(key, data, size_bytes)

    def create(self, key: str, data: bytes | Path) -> bool:
        size_bytes = self._size_of(data, key)
        # A service may answer "conflict" while another create is under way and neither counts yet, and an answer may be
        # lost after the value was stored: whatever went wrong, the value that is there decides.
        for pause_seconds in _PAUSES_SECONDS:
            try:
                with self._asked("create", "create", check_key(key), is_look=size_bytes <= _MOST_AT_A_LOOK_BYTES):
                    self._add(key, data, size_bytes)
                    return True
            except exceptions.AlreadyExistsError:
                is_there = self.size(key) is not None
            except IcefloeError:
                is_there = self._last_look(partial(self.size, key)) is not None
                if not is_there:
                    raise
            if is_there:
                self._requests.add({"found_there": 1})
                return False
            self._pause(pause_seconds)
        raise TransientError(
            f"cannot create {join_url(self.url, key)}: the store says that it exists, but shows nothing there; check "
            "whether it is a folder, otherwise try again", url=self.url, key=key,
        )  # fmt: skip

    def size(self, key: str) -> int | None:
        """The size of the value; None if there is none."""
        try:
            with self._asked("head", "read", check_key(key)):
                return self._size_at(key)
        except KeyMissingError:
            return None

    def delete(self, keys: Iterable[str]) -> None:
        remaining = iter(keys)
        while chunk := [check_key(key) for key in islice(remaining, _KEYS_PER_DELETE)]:
            # Some stores stop at the first key without a value, and do not say which others they deleted.
            if not self._delete(chunk):
                map_parallel(lambda key: self._delete([key]), chunk, at_once=1 if self._clients is None else AT_ONCE)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        folder = check_folder(prefix.removesuffix("/")) if prefix else None
        with self._asked("list", "list", prefix):
            for number, chunk in enumerate(obstore.list(self._connect(), folder, chunk_size=1_000)):
                # A page is a request. The first one is counted already.
                self._requests.add({"list": min(number, 1)})
                for each in chunk:
                    yield StoredObject(key=each["path"], size_bytes=each["size"], modified=each["last_modified"])

    def _size_at(self, key: str) -> int:
        return int(obstore.head(self._connect(), key)["size"])

    def _look_at(self, key: str) -> bytes | None:
        """None if it is too large for the client that looks."""
        answer = obstore.get(self._connect(), key)
        is_large = self._clients is not None and answer.meta["size"] > _MOST_AT_A_LOOK_BYTES
        return None if is_large else bytes(answer.bytes())

    def _replace(self, key: str, data: bytes | Path, size_bytes: int) -> None:
        part_bytes = max(_PART_BYTES, size_bytes // _MOST_PARTS)
        target = self._connect()
        if self._clients is not None and size_bytes > _MOST_AT_A_LOOK_BYTES:
            target = self._clients.upload_of(0)
        obstore.put(target, key, data, chunk_size=part_bytes, max_concurrency=_PARTS_AT_ONCE)

    def _add(self, key: str, data: bytes | Path, size_bytes: int) -> None:
        """AlreadyExistsError if there is one."""
        if self._clients is None or size_bytes <= _MOST_AT_A_LOOK_BYTES:
            target = self._connect()
        else:
            target = self._clients.upload_of(size_bytes)
        content = content_of(data, join_url(self.url, key))
        # Only one request can be conditional: obstore completes an upload in parts whatever is there.
        obstore.put(target, key, content, mode="create", use_multipart=False)

    def _remove(self, keys: Sequence[str]) -> None:
        """FileNotFoundError is possible for a key without a value."""
        obstore.delete(self._connect(), keys)

    def _fetch(self, key: str, ranges: Sequence[ByteRange]) -> Sequence[memoryview]:
        starts, stops = [start for start, _ in ranges], [stop for _, stop in ranges]
        with self._asked("get_ranges", "read", key, number=len(ranges), is_look=False):
            # obstore must not coalesce: if a value ends inside a merged range, it panics instead of answering short.
            parts = obstore.get_ranges(self._downloads(), key, starts=starts, ends=stops, coalesce=0)
        return [memoryview(part) for part in parts]

    def _shortage(self, key: str, stop: int) -> RangeMissingError | None:
        """None: the value reaches so far, or is gone."""
        size_bytes = self.size(key)
        is_short = size_bytes is not None and size_bytes < stop
        return RangeMissingError.of(self.url, key, size_bytes or 0, stop) if is_short else None

    def _delete(self, keys: Sequence[str]) -> bool:
        """True if all existed, as far as the store says; otherwise some may not have been tried."""
        started = time.monotonic()
        for pause_seconds in (*_PAUSES_SECONDS, None):
            try:
                with self._asked("delete", "delete", keys[0] if len(keys) == 1 else ""):
                    self._remove(keys)
            except KeyMissingError:
                return False
            except TransientError:
                # S3 deletes by a POST. If its answer is lost, obstore does not send it again, because not every POST
                # may come twice. This one may.
                is_silent = self._clients is None or time.monotonic() - started >= self._clients.silence_seconds
                if pause_seconds is None or is_silent:
                    raise
                self._pause(pause_seconds)
            else:
                break
        return True

    def _pause(self, seconds: float) -> None:
        self._requests.add({"again": 1, "seconds": seconds})
        time.sleep(seconds)

    def _size_of(self, data: bytes | Path, key: str) -> int:
        return len(data) if isinstance(data, bytes) else file_size(data, join_url(self.url, key))

    def _last_look(self, call: Callable[[], Found | None]) -> Found | None:
        """Gives a silent store little time; None also if it fails."""
        with suppress(IcefloeError, TimeoutError):
            return call() if self._clients is None else answer_within(self._clients.silence_seconds, call)
        return None

    @contextmanager
    def _asked(
        self, kind: RequestKind, action: str, key: str, *, number: int = 1, is_look: bool = True
    ) -> Iterator[None]:
        """Counts a request and turns its errors into ours."""
        heard = nullcontext() if self._clients is None else self._clients.heard(is_look=is_look)
        with heard, self._requests.counted(kind, number), self._place.faults(action, key):
            yield

    def _downloads(self) -> stores.ObjectStore:
        return self._connect() if self._clients is None else self._clients.downloads
