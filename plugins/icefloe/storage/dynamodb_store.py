"""A store in a table of DynamoDB, and one whose create-if-absent goes to such a table."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeVar

from icefloe.errors import TransientError
from icefloe.storage.dynamodb_items import ChunkedValues, Item, Items, key_of_name
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
    join_url,
)

Found = TypeVar("Found")

_OLD: Final = timedelta(days=1)
"""Age at which a large value without an item is none that a living writer is about to name."""


class DynamodbStore(Store):
    """A store whose keys are items. Values too large for one are written before it, under names of their own."""

    def __init__(self, items: Items, large: Store | ChunkedValues) -> None:
        self._items = items
        self._large = large

    @property
    def url(self) -> str:
        return self._items.url

    @property
    def created_in(self) -> str:
        return self._items.table.address

    def get(self, key: str) -> bytes:
        return self._read(key, self._whole)

    def get_ranges(self, key: str, ranges: Sequence[ByteRange]) -> list[bytes]:
        wanted = coalesce_ranges(ranges, gap_bytes=0)
        if not wanted:
            return [b""] * len(ranges)

        def parts(item: Item) -> list[bytes]:
            if item.size_bytes < wanted[-1][1]:
                raise RangeMissingError.of(self.url, key, item.size_bytes, wanted[-1][1])
            if item.value is None and isinstance(self._large, Store):
                return self._large.get_ranges(item.name, ranges)
            value = self._whole(item)
            return [value[start:stop] for start, stop in ranges]

        return self._read(key, parts)

    def put(self, key: str, data: bytes | Path) -> None:
        item = self._offered(key, data)
        if item.value is None:
            self._large.put(item.name, data)
        old = self._items.replace(item)
        if old is not None:
            self._discard(old)
        if not self._keeps(item, data):
            self._discard(item)

    def create(self, key: str, data: bytes | Path) -> bool:
        """True also if this very call created it and its first answer was lost."""
        item = self._offered(key, data)
        if item.value is not None:
            return self._items.create(item)
        if self._items.find(key, has_value=False) is not None:
            return False
        self._large.put(item.name, data)
        # If the item may be there although no answer says so, its value must stay.
        is_created = self._items.create(item) and self._keeps(item, data)
        if not is_created:
            self._discard(item)
        return is_created

    def size(self, key: str) -> int | None:
        """The size of the value; None if there is none."""
        found = self._items.find(check_key(key), has_value=False)
        return None if found is None else found.size_bytes

    def delete(self, keys: Iterable[str]) -> None:
        # The items go first: whoever finds one finds its value.
        self._discard(*self._items.remove(check_key(key) for key in keys))

    def list(self, prefix: str) -> Iterator[StoredObject]:
        folder = f"{check_folder(prefix.removesuffix('/'))}/" if prefix else ""
        for item in self._items.below(folder):
            yield StoredObject(key=item.key, size_bytes=item.size_bytes, modified=item.modified)

    def remove_unfinished(self, prefix: str = "", *, is_over: bool = False) -> int:
        now = self._items.table.now()
        names = {each.key for each in self._large.list(prefix) if is_over or now - each.modified > _OLD}
        unnamed = [name for name in names if key_of_name(name) is not None and not self._is_named(name)]
        self._large.delete(unnamed)
        return len(unnamed)

    def _is_named(self, name: str) -> bool:
        item = self._items.find(key_of_name(name) or name, has_value=False)
        return item is not None and item.name == name

    def _keeps(self, item: Item, data: bytes | Path) -> bool:
        """A value that a sweep took meanwhile, or the writer that came between two sends of a request, is put again."""
        if item.value is not None or self._large.size(item.name) == item.size_bytes:
            return True
        self._large.put(item.name, data)
        return self._is_named(item.name)

    def _discard(self, *items: Item) -> None:
        if large := [item.name for item in items if item.sha256 is not None]:
            self._large.delete(large)

    def _offered(self, key: str, data: bytes | Path) -> Item:
        return self._items.offered(key, content_of(data, join_url(self.url, check_key(key))))

    def _whole(self, item: Item) -> bytes:
        if item.value is not None:
            return item.value
        value = self._large.get(item.name)
        if len(value) < item.size_bytes:
            # It is being deleted.
            raise KeyMissingError.of(self.url, item.name)
        if hashlib.sha256(value).digest() != item.sha256:
            raise TransientError(
                f"the value of {join_url(self.url, item.key)} is damaged: it is not what its item says; try again, and "
                "restore it if it stays so", url=self.url, key=item.key,
            )  # fmt: skip
        return value

    def _read(self, key: str, look: Callable[[Item], Found]) -> Found:
        seen: str | None = None
        while (item := self._items.find(check_key(key))) is not None:
            # Another writer may replace the item now, and delete its value. The next look then finds another item, so
            # each further look costs somebody a write, and only a value that its item still names is gone.
            if item.writer == seen:
                raise TransientError(
                    f"the value of {join_url(self.url, key)} is gone, though its item in "
                    f"{self._items.table.access.url} names it; restore it, or delete the item", url=self.url, key=key,
                )  # fmt: skip
            seen = item.writer
            with suppress(KeyMissingError):
                return look(item)
        raise KeyMissingError.of(self.url, key)


class CoordinatedStore(Store):
    """A store whose created values are in a table, and whose put values are objects: each key has one home."""

    def __init__(self, table: Store, objects: Store) -> None:
        # Large created values are objects. If a key is created and put at the same time, the created value counts.
        self._table = table
        # Nothing is ever created there.
        self._objects = objects

    @property
    def url(self) -> str:
        return self._objects.url

    @property
    def created_in(self) -> str:
        return self._table.created_in

    def get(self, key: str) -> bytes:
        found = self._table.find(key)
        return self._objects.get(key) if found is None else found

    def get_ranges(self, key: str, ranges: Sequence[ByteRange]) -> list[bytes]:
        # Parts are read of large values, which are mostly objects.
        try:
            return self._objects.get_ranges(key, ranges)
        except KeyMissingError:
            return self._table.get_ranges(key, ranges)

    def put(self, key: str, data: bytes | Path) -> None:
        is_created = self._table.size(key) is not None
        (self._table if is_created else self._objects).put(key, data)

    def create(self, key: str, data: bytes | Path) -> bool:
        # Asked first, because documents from the time before the store was coordinated are objects.
        if self._objects.size(key) is not None:
            return False
        return self._table.create(key, data)

    def size(self, key: str) -> int | None:
        """The size of the value; None if there is none."""
        found = self._table.size(key)
        return self._objects.size(key) if found is None else found

    def delete(self, keys: Iterable[str]) -> None:
        wanted = list(keys)
        self._table.delete(wanted)
        self._objects.delete(wanted)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        created = set()
        for each in self._table.list(prefix):
            created.add(each.key)
            yield each
        for each in self._objects.list(prefix):
            if each.key not in created and key_of_name(each.key) is None:
                yield each

    def remove_unfinished(self, prefix: str = "", *, is_over: bool = False) -> int:
        return self._table.remove_unfinished(prefix, is_over=is_over) + self._objects.remove_unfinished(
            prefix, is_over=is_over
        )
