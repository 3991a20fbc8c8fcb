"""The items of one place in a table of DynamoDB; docs/formats.md has their attributes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final, Self, TypeVar

from icefloe.errors import TerminalError
from icefloe.storage.dynamodb_client import DynamodbClient, primary_key
from icefloe.storage.keys import join_url
from icefloe.storage.requests import Requests, RequestTotals

Element = TypeVar("Element")

MOST_INLINE_BYTES: Final = 350 * 2**10
"""Largest value that an item holds itself. An item has at most 400 KB, with the names of its attributes."""
_FORMAT: Final = 1
_KEYS_PER_GET: Final = 100
ITEMS_PER_WRITE: Final = 25
_NAMES: Final = {"#format": "format", "#key": "key", "#modified": "modified", "#size": "size", "#writer": "writer",
                 "#sha256": "sha256"}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """The entry of one key.

    Attributes:
        writer: 32 hex digits that no other write has.
        modified: by the clock of the table's service.
        value: None if the value is too large for an item, or was not asked for.
        sha256: digest of a value that is too large; None if the item holds the value.
    """

    key: str
    writer: str
    size_bytes: int
    modified: datetime
    value: bytes | None = None
    sha256: bytes | None = None

    @property
    def name(self) -> str:
        """Name of a value that is too large for the item."""
        return f"{self.key}~{self.writer}"

    def to_attributes(self, place: str) -> dict[str, Any]:
        """The attributes of the item."""
        found: dict[str, Any] = {
            **primary_key(place, self.key),
            "format": {"N": str(_FORMAT)},
            "writer": {"S": self.writer},
            "size": {"N": str(self.size_bytes)},
            "modified": {"S": self.modified.astimezone(UTC).isoformat(timespec="milliseconds")},
        }
        if self.value is not None:
            found["value"] = {"B": self.value}
        if self.sha256 is not None:
            found["sha256"] = {"B": self.sha256}
        return found

    @classmethod
    def of(cls, attributes: Mapping[str, Any], url: str) -> Self:
        """The item of these attributes.

        Raises:
            TerminalError: another program or a newer release wrote them.
        """
        try:
            if int(attributes["format"]["N"]) != _FORMAT:
                raise TerminalError(
                    f"the item {join_url(url, attributes['key']['S'])} was written by a newer release of icefloe; use "
                    "that release",
                    url=url,
                )
            return cls(
                key=attributes["key"]["S"],
                writer=attributes["writer"]["S"],
                size_bytes=int(attributes["size"]["N"]),
                modified=datetime.fromisoformat(attributes["modified"]["S"]),
                value=attributes.get("value", {}).get("B"),
                sha256=attributes.get("sha256", {}).get("B"),
            )
        except (KeyError, TypeError, ValueError) as cause:
            raise TerminalError(
                f"an item of {url} is none of icefloe's: another program writes to this table; give icefloe a table of "
                "its own",
                url=url,
            ) from cause


class Items:
    """The items of one place, such as the bucket that they coordinate, which errors name by a URL."""

    def __init__(self, client: DynamodbClient, place: str, url: str, requests: Requests) -> None:
        self.client = client
        self.url = url
        self._place = place
        self._requests = requests

    def find(self, key: str, *, has_value: bool = True) -> Item | None:
        """An item as the last write left it, without its value if that is not wanted; None if there is none."""
        narrow = {} if has_value else {"ProjectionExpression": ", ".join(_NAMES), "ExpressionAttributeNames": _NAMES}
        with self._requests.counted("get" if has_value else "head"):
            wanted = primary_key(self._place, key)
            answer = self.client.call("read", "get_item", Key=wanted, ConsistentRead=True, **narrow)
        return Item.of(answer["Item"], self.url) if "Item" in answer else None

    def create(self, item: Item) -> bool:
        """Stores an item only if there is none; True if this very call did, also if its first answer was lost."""
        from botocore.exceptions import ClientError

        try:
            with self._requests.counted("create"):
                self.client.call(
                    "create",
                    "put_item",
                    Item=self._attributes(item),
                    ConditionExpression="attribute_not_exists(#key)",
                    ExpressionAttributeNames={"#key": "key"},
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
        except ClientError as refusal:
            # The condition does not hold. The request may have been sent twice, and the first have won.
            there = refusal.response.get("Item", {})
            if there.get("writer", {}).get("S") == item.writer:
                return True
            self._requests.add(RequestTotals(found_there=1))
            return False
        return True

    def replace(self, item: Item) -> Item | None:
        """Stores an item in place of any other, which is returned."""
        with self._requests.counted("put"):
            answer = self.client.call("write", "put_item", Item=self._attributes(item), ReturnValues="ALL_OLD")
        old = answer.get("Attributes")
        # A request that was sent twice replaces its own item.
        return Item.of(old, self.url) if old and old["writer"]["S"] != item.writer else None

    def forget(self, item: Item) -> None:
        """Deletes an item unless another write has replaced it."""
        from botocore.exceptions import ClientError

        # Every other error of a request comes as one of ours: only the condition does not hold.
        with self._requests.counted("delete"), suppress(ClientError):
            self.client.call(
                "delete",
                "delete_item",
                Key=primary_key(self._place, item.key),
                ConditionExpression="#writer = :writer",
                ExpressionAttributeNames={"#writer": "writer"},
                ExpressionAttributeValues={":writer": {"S": item.writer}},
            )

    def remove(self, keys: Iterable[str]) -> Iterator[Item]:
        """Deletes items; gives those that were there, without their values, once they are gone."""
        for some in in_groups(dict.fromkeys(keys), _KEYS_PER_GET):
            with self._requests.counted("delete"):
                found = self._present(some)
                for few in in_groups(found, ITEMS_PER_WRITE):
                    gone = [{"DeleteRequest": {"Key": primary_key(self._place, item.key)}} for item in few]
                    self.client.write("delete", gone)
            yield from found

    def below(self, prefix: str) -> Iterator[Item]:
        """The items whose keys begin with a text, without their values."""
        for answer in self.client.pages(self._place, prefix, _NAMES):
            self._requests.add(RequestTotals(list=1))
            yield from (Item.of(attributes, self.url) for attributes in answer["Items"])

    def _present(self, keys: Sequence[str]) -> list[Item]:
        wanted = {
            "Keys": [primary_key(self._place, key) for key in keys],
            "ConsistentRead": True,
            "ProjectionExpression": ", ".join(_NAMES),
            "ExpressionAttributeNames": _NAMES,
        }
        answers = self.client.batch("delete", "batch_get_item", wanted)
        found = (attributes for answer in answers for each in answer["Responses"].values() for attributes in each)
        return [Item.of(attributes, self.url) for attributes in found]

    def _attributes(self, item: Item) -> dict[str, Any]:
        # As old as the item, and not as the beginning of its value's upload, which may be long ago.
        return replace(item, modified=self.client.now()).to_attributes(self._place)


def in_groups(elements: Iterable[Element], most: int) -> Iterator[list[Element]]:
    """The elements in lists of at most so many.

    >>> list(in_groups("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    remaining = iter(elements)
    while group := list(islice(remaining, most)):
        yield group
