"""A bucket or container of a store, seen without icefloe."""

import obstore
from obstore.store import ObjectStore

from icefloe.testing import Behind

__all__ = ["Bucket"]


class Bucket(Behind):
    """A bucket seen by obstore alone."""

    def __init__(self, name: str, objects: ObjectStore) -> None:
        self.name = name
        self._objects = objects

    def read(self, key: str) -> bytes | None:
        try:
            return bytes(obstore.get(self._objects, key).bytes())
        except FileNotFoundError:
            return None

    def write(self, key: str, data: bytes) -> None:
        obstore.put(self._objects, key, data)

    def keys(self) -> set[str]:
        return {found["path"] for chunk in obstore.list(self._objects) for found in chunk}
