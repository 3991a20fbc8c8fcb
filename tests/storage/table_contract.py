"""Stores on a table of DynamoDB, seen without them: the contract's ``behind``."""

import hashlib
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

from botocore.session import Session

from icefloe.testing import Behind
from storage.contract import Memory

CHUNK = 350 * 2**10


def partition(place: str, key: str) -> str:
    """The partition key of an item."""
    return f"{place}#{hashlib.sha256(key.encode()).hexdigest()[0]}"


_session = cache(Session)
"""One for all tests: each reads botocore's models again."""


def table_client(access: Mapping[str, str]) -> Any:
    """A client that knows nothing of icefloe's."""
    return _session().create_client(
        "dynamodb", region_name=access["dynamodb_region"], endpoint_url=access["dynamodb_endpoint"],
        aws_access_key_id=access["dynamodb_access_key_id"], aws_secret_access_key=access["dynamodb_secret_access_key"],
    )  # fmt: skip


class Attributes(Behind):
    """Items as docs/developers/formats.md describes them."""

    def __init__(self, client: Any, table: str, place: str, prefix: str = "", objects: Memory | None = None):
        self._client, self._table, self._place, self._prefix = client, table, place, prefix
        self._objects = objects

    def read(self, key: str) -> bytes | None:
        key = self._prefix + key
        while True:
            item = self._item(self._place, key)
            if item is None or "value" in item:
                return None if item is None else item["value"]["B"]
            value = self._large(f"{key}~{item['writer']['S']}", int(item["size"]["N"]))
            if value is not None:
                return value

    def write(self, key: str, data: bytes) -> None:
        key, writer = self._prefix + key, uuid.uuid4().hex
        if len(data) <= CHUNK:
            self._put(self._place, key, writer, len(data), value={"B": data})
            return
        for number, start in enumerate(range(0, len(data), CHUNK)):
            part = data[start : start + CHUNK]
            name = f"{key}~{writer}/{number:06d}"
            self._put(f"{self._place}#chunks", name, uuid.uuid4().hex, len(part), value={"B": part})
        self._put(self._place, key, writer, len(data), sha256={"B": hashlib.sha256(data).digest()})

    def _put(self, place: str, key: str, writer: str, size: int, **content: Any) -> None:
        item = {
            "place": {"S": partition(place, key)}, "key": {"S": key}, "format": {"N": "1"}, "writer": {"S": writer},
            "size": {"N": str(size)}, "modified": {"S": datetime.now(UTC).isoformat(timespec="milliseconds")},
        }  # fmt: skip
        self._client.put_item(TableName=self._table, Item=item | content)

    def keys(self) -> set[str]:
        found = (key for shard in "0123456789abcdef" for key in self._keys(f"{self._place}#{shard}"))
        return {key.removeprefix(self._prefix) for key in found if key.startswith(self._prefix)}

    def _keys(self, place: str) -> set[str]:
        pages = self._client.get_paginator("query").paginate(
            TableName=self._table, KeyConditionExpression="#place = :place", ConsistentRead=True,
            ExpressionAttributeNames={"#place": "place"}, ExpressionAttributeValues={":place": {"S": place}},
        )  # fmt: skip
        return {item["key"]["S"] for page in pages for item in page["Items"]}

    def _large(self, name: str, size: int) -> bytes | None:
        if self._objects is not None:
            return self._objects.read(name)
        chunks = [self._item(f"{self._place}#chunks", f"{name}/{number:06d}") for number in range(-(-size // CHUNK))]
        return None if None in chunks else b"".join(chunk["value"]["B"] for chunk in chunks if chunk)

    def _item(self, place: str, key: str) -> Any:
        answer = self._client.get_item(
            TableName=self._table, Key={"place": {"S": partition(place, key)}, "key": {"S": key}}, ConsistentRead=True
        )
        return answer.get("Item")


class Both(Behind):
    """A table and the objects that it coordinates."""

    def __init__(self, table: Attributes, objects: Memory) -> None:
        self._table, self._objects = table, objects

    def read(self, key: str) -> bytes | None:
        found = self._table.read(key)
        return self._objects.read(key) if found is None else found

    def write(self, key: str, data: bytes) -> None:
        self._objects.write(key, data)

    def keys(self) -> set[str]:
        objects, items = self._objects.keys(), self._table.keys()
        large = {name for name in objects if name.rpartition("~")[0] in items}
        assert not items & objects, "a key with two homes"
        return items | objects - large
