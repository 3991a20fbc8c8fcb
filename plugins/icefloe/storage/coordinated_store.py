"""A store whose create-if-absent goes to a table, for services that ignore conditional writes."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from icefloe.storage.dynamodb_values import key_of_name
from icefloe.storage.ranges import ByteRange
from icefloe.storage.store import KeyMissingError, Store, StoredObject


class CoordinatedStore(Store):
    """A store in which values that are created are in a table, and values that are put are objects.

    So every key has one home. If a key is created and put at the same time, the created value counts.

    Args:
        table: keeps the created values; its large ones are among the objects.
        objects: keeps all others. Nothing is ever created there.
    """

    def __init__(self, table: Store, objects: Store) -> None:
        self._table = table
        self._objects = objects

    @property
    def url(self) -> str:
        """URL of the store; see `Store`."""
        return self._objects.url

    @property
    def requests_at_once(self) -> int:
        """Number of requests that are sent at the same time; see `Store`."""
        return self._objects.requests_at_once

    @property
    def created_in(self) -> str:
        """Address of the table of DynamoDB; see `Store`."""
        return self._table.created_in

    def get(self, key: str) -> bytes:
        """The value; see `Store`."""
        found = self._table.find(key)
        return self._objects.get(key) if found is None else found

    def get_ranges(self, key: str, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Parts of the value; see `Store`."""
        # Parts are read of large values, which are mostly objects.
        try:
            return self._objects.get_ranges(key, ranges)
        except KeyMissingError:
            return self._table.get_ranges(key, ranges)

    def put(self, key: str, data: bytes | Path) -> None:
        """Stores a value; see `Store`."""
        is_created = self._table.size(key) is not None
        (self._table if is_created else self._objects).put(key, data)

    def create(self, key: str, data: bytes | Path) -> bool:
        """Stores a value only if there is none; see `Store`."""
        # Asked first, because documents from the time before the store was coordinated are objects.
        if self._objects.size(key) is not None:
            return False
        return self._table.create(key, data)

    def size(self, key: str) -> int | None:
        """The size of the value; None if there is none."""
        found = self._table.size(key)
        return self._objects.size(key) if found is None else found

    def delete(self, keys: Iterable[str]) -> None:
        """Deletes values; see `Store`."""
        wanted = list(keys)
        self._table.delete(wanted)
        self._objects.delete(wanted)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Every object below a key taken as a folder; see `Store`."""
        created = set()
        for each in self._table.list(prefix):
            created.add(each.key)
            yield each
        for each in self._objects.list(prefix):
            if each.key not in created and key_of_name(each.key) is None:
                yield each

    def remove_unfinished(self, prefix: str = "", *, is_over: bool = False) -> int:
        """Removes unfinished objects that dead writers left; see `Store`."""
        return self._table.remove_unfinished(prefix, is_over=is_over) + self._objects.remove_unfinished(
            prefix, is_over=is_over
        )
