"""Writes of a run that may be a zombie. They are taken back if the batch is over after the last write."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from icefloe.errors import IcefloeError
from icefloe.node.machine import Machine
from icefloe.storage.keys import ByteRange
from icefloe.storage.store import Store, StoredObject

logger = logging.getLogger(__name__)


class FencedStore(Store):
    """A store that remembers which keys were written through it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._written: dict[str, None] = {}

    @property
    def url(self) -> str:
        """See `Store`."""
        return self._store.url

    @property
    def requests_at_once(self) -> int:
        """See `Store`."""
        return self._store.requests_at_once

    def get(self, key: str) -> bytes:
        """See `Store`."""
        return self._store.get(key)

    def get_ranges(self, key: str, ranges: Sequence[ByteRange]) -> list[bytes]:
        """See `Store`."""
        return self._store.get_ranges(key, ranges)

    def put(self, key: str, data: bytes | Path) -> None:
        """See `Store`."""
        # Remembered first: a put that fails may have stored the value anyway.
        self._written[key] = None
        self._store.put(key, data)

    def create(self, key: str, data: bytes | Path) -> bool:
        """See `Store`."""
        self._written[key] = None
        return self._store.create(key, data)

    def size(self, key: str) -> int | None:
        """See `Store`."""
        return self._store.size(key)

    def delete(self, keys: Iterable[str]) -> None:
        """See `Store`."""
        self._store.delete(keys)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """See `Store`."""
        return self._store.list(prefix)

    def remove_unfinished(self, prefix: str = "", *, is_over: bool = False) -> int:
        """See `Store`."""
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

    A check before the first write proves nothing: the process may stop after it until others have finished the batch
    and cleaned up. A batch that is over needs nothing from its folder, so a value of another attempt may go too.
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
