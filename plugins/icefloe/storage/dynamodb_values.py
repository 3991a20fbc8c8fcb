"""Values that are too large for an item: objects of the store that the table coordinates, or chunks in the table."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol

from icefloe.storage.dynamodb_client import DynamodbClient, primary_key
from icefloe.storage.dynamodb_items import ITEMS_PER_WRITE, MOST_INLINE_BYTES, Item, in_groups
from icefloe.storage.local_file import mapped_file
from icefloe.storage.ranges import ByteRange, coalesce_ranges
from icefloe.storage.store import KeyMissingError, Store

_NAME: Final = re.compile(r"(?P<key>.+)~[0-9a-f]{32}", re.DOTALL)


class LargeValues(Protocol):
    """Values under the names of their items, each written once, before the item that names it."""

    def put(self, item: Item, data: bytes | Path) -> None:
        """Stores the value of an item."""

    def get(self, item: Item) -> bytes:
        """The value of an item; raises KeyMissingError if it is gone."""

    def has(self, item: Item) -> bool:
        """False if the value of an item is gone."""

    def get_ranges(self, item: Item, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Parts of the value of an item; raises as `get` does."""

    def delete(self, items: Iterable[Item]) -> None:
        """Deletes the values of items; small ones and those that are gone are passed over."""

    def names(self, prefix: str) -> Iterator[tuple[str, datetime]]:
        """The names of all values below a key taken as a folder, with their times."""

    def discard(self, names: Sequence[str]) -> None:
        """Deletes values by their names."""


class StoredValues:
    """Large values as objects next to the keys that they are the values of.

    Args:
        store: the whole bucket.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def put(self, item: Item, data: bytes | Path) -> None:
        """Stores the value of an item."""
        self._store.put(item.name, data)

    def get(self, item: Item) -> bytes:
        """The value of an item."""
        return self._store.get(item.name)

    def has(self, item: Item) -> bool:
        """False if the value of an item is gone."""
        return self._store.size(item.name) is not None

    def get_ranges(self, item: Item, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Parts of the value of an item."""
        return self._store.get_ranges(item.name, ranges)

    def delete(self, items: Iterable[Item]) -> None:
        """Deletes the values of items."""
        self.discard([item.name for item in items if item.sha256 is not None])

    def names(self, prefix: str) -> Iterator[tuple[str, datetime]]:
        """The names of all values below a folder."""
        return ((each.key, each.modified) for each in self._store.list(prefix) if key_of_name(each.key) is not None)

    def discard(self, names: Sequence[str]) -> None:
        """Deletes values by their names."""
        if names:
            self._store.delete(names)


class ChunkedValues:
    """Large values as items of a place of their own, in chunks.

    Args:
        client: of the table.
        place: the place of the items that name them.
        url: names them in errors.
    """

    def __init__(self, client: DynamodbClient, place: str, url: str) -> None:
        self._client = client
        self._place = f"{place}#chunks"
        self._url = url

    def put(self, item: Item, data: bytes | Path) -> None:
        """Stores the value of an item."""
        content = data if isinstance(data, bytes) else mapped_file(data, self._url)
        starts = range(0, item.size_bytes, MOST_INLINE_BYTES)
        modified = {"S": item.modified.isoformat(timespec="milliseconds")}
        for some in in_groups(enumerate(starts), ITEMS_PER_WRITE):
            chunks = [
                {**self._key(item.name, number), "modified": modified,
                 "value": {"B": bytes(content[start : start + MOST_INLINE_BYTES])}}
                for number, start in some
            ]  # fmt: skip
            self._client.write("write", [{"PutRequest": {"Item": chunk}} for chunk in chunks])

    def get(self, item: Item) -> bytes:
        """The value of an item."""
        return b"".join(self._chunk(item, number) for number in range(_count(item.size_bytes)))

    def has(self, item: Item) -> bool:
        """False if the value of an item is gone."""
        with suppress(KeyMissingError):
            return bool(self.get(item))
        return False

    def get_ranges(self, item: Item, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Parts of the value of an item, whose ranges end before it does."""
        coalesce_ranges(ranges, gap_bytes=0)
        chunks: dict[int, bytes] = {}
        found = []
        for start, stop in ranges:
            numbers = range(start // MOST_INLINE_BYTES, _count(stop)) if start < stop else range(0)
            chunks |= {number: self._chunk(item, number) for number in numbers if number not in chunks}
            joined = b"".join(chunks[number] for number in numbers)
            first = numbers.start * MOST_INLINE_BYTES
            found.append(joined[start - first : stop - first] if numbers else b"")
        return found

    def delete(self, items: Iterable[Item]) -> None:
        """Deletes the values of items."""
        for item in items:
            if item.sha256 is not None:
                self._delete([self._key(item.name, number) for number in range(_count(item.size_bytes))])

    def names(self, prefix: str) -> Iterator[tuple[str, datetime]]:
        """The names of all values below a folder."""
        found = {key.rpartition("/")[0]: modified for key, modified in self._list(f"{prefix}/" if prefix else "")}
        return iter(found.items())

    def discard(self, names: Sequence[str]) -> None:
        """Deletes values by their names."""
        for name in names:
            self._delete([primary_key(self._place, key) for key, _ in self._list(f"{name}/")])

    def _chunk(self, item: Item, number: int) -> bytes:
        answer = self._client.call("read", "get_item", Key=self._key(item.name, number), ConsistentRead=True)
        if "Item" not in answer:
            raise KeyMissingError.of(self._url, item.name)
        value: bytes = answer["Item"]["value"]["B"]
        return value

    def _list(self, prefix: str) -> Iterator[tuple[str, datetime]]:
        for answer in self._client.pages(self._place, prefix, {"#key": "key", "#modified": "modified"}):
            for each in answer["Items"]:
                yield each["key"]["S"], datetime.fromisoformat(each["modified"]["S"])

    def _delete(self, keys: Sequence[Any]) -> None:
        for some in in_groups(keys, ITEMS_PER_WRITE):
            self._client.write("delete", [{"DeleteRequest": {"Key": key}} for key in some])

    def _key(self, name: str, number: int) -> dict[str, Any]:
        return primary_key(self._place, f"{name}/{number:06d}")


def key_of_name(name: str) -> str | None:
    """The key that a large value is of; None if the name is none of a large value.

    >>> key_of_name("batch=0/part-0.parquet~" + 32 * "0"), key_of_name("batch=0/part-0.parquet")
    ('batch=0/part-0.parquet', None)
    """
    match = _NAME.fullmatch(name)
    return None if match is None else match["key"]


def _count(size_bytes: int) -> int:
    return -(-size_bytes // MOST_INLINE_BYTES)
