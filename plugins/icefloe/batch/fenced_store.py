"""Writes of a run that may be a zombie. They are taken back if the batch is over after the last write."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from icefloe.errors import IcefloeError
from icefloe.node.machine import Machine
from icefloe.storage.store import Store, StoredObject
from icefloe.storage.values import ByteRange

logger = logging.getLogger(__name__)


class FencedStore(Store):
    """A store that remembers which keys were written through it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._written: dict[str, None] = {}

    @property
    def url(self) -> str:
        """URL of the store; see `Store`."""
        return self._store.url

    @property
    def requests_at_once(self) -> int:
        """Number of requests that are sent at the same time; see `Store`."""
        return self._store.requests_at_once

    def get(self, key: str) -> bytes:
        """The value; see `Store`."""
        return self._store.get(key)

    def get_ranges(self, key: str, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Parts of the value; see `Store`."""
        return self._store.get_ranges(key, ranges)

    def put(self, key: str, data: bytes | Path) -> None:
        """Stores a value; see `Store`."""
        # Remembered first: a put that fails may have stored the value anyway.
        self._written[key] = None
        self._store.put(key, data)

    def create(self, key: str, data: bytes | Path) -> bool:
        """Stores a value only if there is none; see `Store`."""
        self._written[key] = None
        return self._store.create(key, data)

    def size(self, key: str) -> int | None:
        """Size of the value; None if there is none."""
        return self._store.size(key)

    def delete(self, keys: Iterable[str]) -> None:
        """Deletes values; see `Store`."""
        self._store.delete(keys)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Every object below a key taken as a folder; see `Store`."""
        return self._store.list(prefix)

    def remove_unfinished(self, prefix: str = "", *, is_over: bool = False) -> int:
        """Deletes unfinished writes; see `Store`."""
        return self._store.remove_unfinished(prefix, is_over=is_over)

    def take_back(self) -> None:
        """Deletes everything that was written."""
        keys, self._written = list(self._written), {}
        if keys:
            logger.info("the batch is over: %d objects that came too late are taken back from %s", len(keys), self.url)
            self._store.delete(keys)


@contextmanager
def taken_back_if_over(
    store: FencedStore, is_over: Callable[[], bool], machine: Machine | None = None
) -> Iterator[None]:
    """Checks the batch when the block ends, in whatever way, and takes the block's writes back if the batch is over.

    A check before the first write proves nothing: the process may be stopped after it until others have finished the
    batch and cleaned up. After the last write nothing can come late. A batch that is over needs nothing from its
    folder. So it does no harm to take back a value that another attempt wrote under the same key.
    """
    try:
        yield
    finally:
        try:
            #   looks: open | stopped; others finish the batch and clean up | goes on, writes | looks: over, takes back
            # Only the look after the last write can see that.
            if is_over():
                if machine is not None:
                    machine.take_back()
                store.take_back()
        except IcefloeError as error:
            logger.warning("a late run may have left files in %s, and they could not be removed: %s", store.url, error)
