"""The smallest store of another package: values in a dictionary, under URLs such as ``vault://box:7000``."""

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from icefloe.storage.store import KeyMissingError, RangeMissingError, Store, StoredObject, check_key, coalesce_ranges

__all__ = ["BOXES", "OPENED", "VaultStore", "open_vault"]

BOXES: defaultdict[str, dict[str, tuple[bytes, datetime]]] = defaultdict(dict)
"""The values of each vault, with the times at which they were stored."""
OPENED: list[Mapping[str, str]] = []
"""The options with which vaults were opened."""
_LOCK = threading.Lock()


class VaultStore(Store):
    """All values of one vault."""

    def __init__(self, url: str) -> None:
        self._url, self._values = url, BOXES[url]

    @property
    def url(self) -> str:
        return self._url

    def get(self, key: str) -> bytes:
        found = self._values.get(check_key(key))
        if found is None:
            raise KeyMissingError.of(self._url, key)
        return found[0]

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        wanted = coalesce_ranges(ranges, gap_bytes=0)
        if not wanted:
            return [b"" for _ in ranges]
        data = self.get(key)
        if wanted[-1][1] > len(data):
            raise RangeMissingError.of(self._url, key, len(data), wanted[-1][1])
        return [data[start:stop] for start, stop in ranges]

    def put(self, key: str, data: bytes | Path) -> None:
        value = data if isinstance(data, bytes) else data.read_bytes()
        self._values[check_key(key)] = value, datetime.now(UTC)

    def create(self, key: str, data: bytes | Path) -> bool:
        with _LOCK:
            is_free = check_key(key) not in self._values
            if is_free:
                self.put(key, data)
        return is_free

    def size(self, key: str) -> int | None:
        found = self._values.get(check_key(key))
        return None if found is None else len(found[0])

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._values.pop(check_key(key), None)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        folder = f"{prefix.rstrip('/')}/" if prefix else ""
        for key, (data, modified) in list(self._values.items()):
            if key.startswith(folder):
                yield StoredObject(key=key, size_bytes=len(data), modified=modified)


def open_vault(root_url: str, *, options: Mapping[str, str], patience: float) -> Store:
    """The entry point ``icefloe.stores``."""
    assert patience > 0
    OPENED.append(options)
    return VaultStore(root_url)
