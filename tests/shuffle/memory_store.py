"""A store in memory that does what its tests ask for: loses, cuts and damages what it holds."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from icefloe.errors import TransientError
from icefloe.storage.store import KeyMissingError, Store, StoredObject

__all__ = ["MemoryStore"]


class MemoryStore(Store):
    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.requests: list[tuple[str, str]] = []

    @property
    def url(self) -> str:
        return "memory://tests"

    def get(self, key: str) -> bytes:
        self.requests.append(("get", key))
        if key not in self.objects:
            raise KeyMissingError.of(self.url, key)
        return self.objects[key]

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        self.requests.append(("get_ranges", key))
        if key not in self.objects:
            raise KeyMissingError.of(self.url, key)
        data = self.objects[key]
        if any(stop > len(data) for _, stop in ranges):
            raise TransientError(f"{key} answered short", key=key)
        return [data[start:stop] for start, stop in ranges]

    def put(self, key: str, data: bytes | Path) -> None:
        self.requests.append(("put", key))
        self.objects[key] = data.read_bytes() if isinstance(data, Path) else data

    def create(self, key: str, data: bytes | Path) -> bool:
        self.requests.append(("create", key))
        if key in self.objects:
            return False
        self.objects[key] = data.read_bytes() if isinstance(data, Path) else data
        return True

    def size(self, key: str) -> int | None:
        return len(self.objects[key]) if key in self.objects else None

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.objects.pop(key, None)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        raise AssertionError(f"nothing of the shuffle is ever found by listing, yet {prefix!r} was")

    def child(self, prefix: str) -> Store:
        raise AssertionError(f"the shuffle stays where it is put, yet asks for {prefix!r}")

    def flip(self, key: str, position: int) -> None:
        """Inverts one byte."""
        data = bytearray(self.objects[key])
        data[position] ^= 0xFF
        self.objects[key] = bytes(data)
