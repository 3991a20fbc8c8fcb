"""The items of a place in a table, and chunks of values that are too large for one."""

import hashlib
import re
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count, islice, takewhile
from mmap import mmap
from pathlib import Path
from typing import Any, Final, Self

from icefloe.errors import TerminalError
from icefloe.storage.dynamodb_table import DynamodbTable
from icefloe.storage.requests import Requests
from icefloe.storage.store import StoredObject, content_of, join_url

MOST_INLINE_BYTES: Final = 350 * 2**10
"""Largest value that an item holds itself. An item has at most 400 KB, with the names of its attributes."""
_FORMAT: Final = 1
_KEYS_PER_GET: Final = 100
_NAMES: Final = {f"#{name}": name for name in ("format", "key", "modified", "size", "writer", "sha256")}
_NARROW: Final[Mapping[str, Any]] = {
    "ProjectionExpression": ", ".join(_NAMES), "ExpressionAttributeNames": _NAMES
}  # fmt: skip
_SHARDS: Final = "0123456789abcdef"
"""Each place has so many partition keys: DynamoDB takes 1,000 writes a second for one of them."""
_LARGE_NAME: Final = re.compile(r"(?P<key>.+)~[0-9a-f]{32}", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """The entry of one key."""

    key: str
    writer: str  # 32 hex digits that no other write has
    size_bytes: int
    modified: datetime  # by the clock of the table's service
    value: bytes | None = None  # None if it is too large for an item, or was not asked for
    sha256: bytes | None = None  # of a value that is too large; None if the item holds the value

    @property
    def name(self) -> str:
        """Name of a value that is too large for the item."""
        return f"{self.key}~{self.writer}"

    @classmethod
    def of(cls, attributes: Mapping[str, Any], url: str) -> Self:
        """The item of these attributes."""
        try:
            if int(attributes["format"]) != _FORMAT:
                raise TerminalError(
                    f"the item {join_url(url, attributes['key'])} was written by a newer release of icefloe; use that "
                    "release", url=url,
                )  # fmt: skip
            return cls(
                key=attributes["key"],
                writer=attributes["writer"],
                size_bytes=int(attributes["size"]),
                modified=datetime.fromisoformat(attributes["modified"]),
                **{name: bytes(attributes[name]) for name in ("value", "sha256") if name in attributes},
            )
        except (KeyError, TypeError, ValueError) as cause:
            raise TerminalError(
                f"an item of {url} is none of icefloe's: another program writes to this table; give icefloe a table of "
                "its own",
                url=url,
            ) from cause


class Items:
    """The items of one place, such as the bucket that they coordinate."""

    def __init__(self, table: DynamodbTable, place: str, url: str, requests: Requests) -> None:
        self.table = table
        self.url = url
        self._name = table.access.table
        self._place = place
        self._requests = requests

    def offered(self, key: str, content: bytes | mmap) -> Item:
        """A new item for a value, without the value if it is too large."""
        is_large = len(content) > MOST_INLINE_BYTES
        return Item(
            key=key,
            writer=uuid.uuid4().hex,
            size_bytes=len(content),
            modified=self.table.now(),
            value=None if is_large else bytes(content),
            sha256=hashlib.sha256(content).digest() if is_large else None,
        )

    def find(self, key: str, *, has_value: bool = True) -> Item | None:
        """An item as the last write left it; None if there is none."""
        with self._requests.counted("get" if has_value else "head"), self.table.asked("read") as client:
            answer = client.get_item(
                TableName=self._name,
                Key=self._key(key),
                ConsistentRead=True,
                **({} if has_value else _NARROW),
            )
        return Item.of(answer["Item"], self.url) if "Item" in answer else None

    def create(self, item: Item) -> bool:
        """Stores an item only if there is none; True also if this call's first answer was lost."""
        from botocore.exceptions import ClientError

        try:
            with self._requests.counted("create"), self.table.asked("create") as client:
                client.put_item(
                    TableName=self._name,
                    Item=self._attributes(item),
                    ConditionExpression="attribute_not_exists(#key)",
                    ExpressionAttributeNames={"#key": "key"},
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
        except ClientError as refusal:
            # The condition does not hold. The request may have been sent twice, and the first have won. Boto3 leaves
            # the types of the service in an answer that is an error.
            writer = refusal.response.get("Item", {}).get("writer", {}).get("S")
            self._requests.add({"found_there": writer != item.writer})
            return bool(writer == item.writer)
        return True

    def replace(self, item: Item) -> Item | None:
        """Stores an item in place of any other, which is returned."""
        with self._requests.counted("put"), self.table.asked("write") as client:
            answer = client.put_item(TableName=self._name, Item=self._attributes(item), ReturnValues="ALL_OLD")
        old = answer.get("Attributes")
        # A request that was sent twice replaces its own item.
        return Item.of(old, self.url) if old and old["writer"] != item.writer else None

    def remove(self, keys: Iterable[str]) -> Iterator[Item]:
        """Deletes items; gives those that existed, without their values, once they are gone."""
        from boto3.dynamodb.table import BatchWriter

        remaining = iter(dict.fromkeys(keys))
        while some := list(islice(remaining, _KEYS_PER_GET)):
            with self._requests.counted("delete"):
                found = list(self._present(some))
                with self.table.asked("delete") as client, BatchWriter(self._name, client) as batch:
                    for item in found:
                        batch.delete_item(Key=self._key(item.key))
            yield from found

    def below(self, prefix: str) -> Iterator[Item]:
        """The items whose keys begin with a text, without their values."""
        # Boto3's own conditions share one counter of placeholders between all threads.
        condition, values = "#place = :place", {}
        if prefix:
            condition, values = f"{condition} AND begins_with(#key, :prefix)", {":prefix": prefix}
        for shard in _SHARDS:
            with self.table.asked("list") as client:
                pages = client.get_paginator("query").paginate(
                    TableName=self._name,
                    ConsistentRead=True,
                    KeyConditionExpression=condition,
                    ProjectionExpression=", ".join(_NAMES),
                    ExpressionAttributeNames={"#place": "place", **_NAMES},
                    ExpressionAttributeValues={":place": f"{self._place}#{shard}", **values},
                )
                for page in pages:
                    self._requests.add({"list": 1})
                    yield from (Item.of(attributes, self.url) for attributes in page["Items"])

    def _present(self, keys: Sequence[str]) -> Iterator[Item]:
        wanted: Any = {"Keys": [self._key(key) for key in keys], "ConsistentRead": True, **_NARROW}
        while wanted:
            # A table that can answer none of them answers with an error, so each answer is less to ask for.
            with self.table.asked("delete") as client:
                answer = client.batch_get_item(RequestItems={self._name: wanted})
            yield from (Item.of(attributes, self.url) for attributes in answer["Responses"].get(self._name, ()))
            wanted = answer.get("UnprocessedKeys", {}).get(self._name)

    def _key(self, key: str) -> dict[str, str]:
        """Partition key and sort key. Keys of one folder are in all partitions of the place."""
        shard = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[0]
        return {"place": f"{self._place}#{shard}", "key": key}

    def _attributes(self, item: Item) -> dict[str, Any]:
        content = {"value": item.value, "sha256": item.sha256}
        return {
            **self._key(item.key),
            "format": _FORMAT,
            "writer": item.writer,
            "size": item.size_bytes,
            # As old as the item, and not as the beginning of its value's upload, which may be long ago.
            "modified": self.table.now().isoformat(timespec="milliseconds"),
            **{name: data for name, data in content.items() if data is not None},
        }


class ChunkedValues:
    """Large values of keys that are in the table alone: by name, in chunks that are items of a place of their own."""

    def __init__(self, chunks: Items) -> None:
        self._chunks = chunks

    def put(self, name: str, data: bytes | Path) -> None:
        """Stores a value."""
        content = content_of(data, self._chunks.url)
        for number, start in enumerate(range(0, len(content), MOST_INLINE_BYTES)):
            self._chunks.replace(self._chunks.offered(
                f"{name}/{number:06d}", bytes(content[start : start + MOST_INLINE_BYTES])
            ))  # fmt: skip

    def get(self, name: str) -> bytes:
        """The value as far as there are chunks: empty if there is none."""
        found = (self._chunks.find(f"{name}/{number:06d}") for number in count())
        return b"".join(chunk.value or b"" for chunk in takewhile(bool, found) if chunk)

    def size(self, name: str) -> int | None:
        """Bytes of its chunks; None if there is none."""
        return sum(each.size_bytes for each in self._chunks.below(f"{name}/")) or None

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """The chunks of all values below a key taken as a folder, each under the name of its value."""
        for each in self._chunks.below(f"{prefix}/" if prefix else ""):
            yield StoredObject(key=each.key.rpartition("/")[0], size_bytes=each.size_bytes, modified=each.modified)

    def delete(self, names: Iterable[str]) -> None:
        """Deletes values; missing ones are passed over."""
        for name in names:
            deque(self._chunks.remove(chunk.key for chunk in self._chunks.below(f"{name}/")), maxlen=0)


def key_of_name(name: str) -> str | None:
    """The key of a large value; None for another name.

    >>> key_of_name("batch=0/part-0.parquet~" + 32 * "0"), key_of_name("batch=0/part-0.parquet")
    ('batch=0/part-0.parquet', None)
    """
    match = _LARGE_NAME.fullmatch(name)
    return None if match is None else match["key"]
