"""Requests to a table of DynamoDB, repeated with back-off, and its errors as ours."""

import random
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cached_property, lru_cache
from hashlib import sha256
from time import monotonic
from typing import Any, Final

from icefloe.errors import IcefloeError, TerminalError
from icefloe.patience import brief_seconds
from icefloe.redacted_output import raise_outgoing
from icefloe.storage.clients import RETRY_SHARE, SILENCE_SHARE, pauses_until
from icefloe.storage.dynamodb_access import DynamodbAccess
from icefloe.storage.dynamodb_errors import is_answered, is_refused_condition, overloaded, table_error
from icefloe.storage.dynamodb_session import botocore_client
from icefloe.storage.options import service_query
from icefloe.storage.store_health import health_of_store

_SHARDS: Final = "0123456789abcdef"
"""Each place has so many partition keys: DynamoDB takes 1,000 writes a second for one of them."""


class DynamodbClient:
    """The client of one table.

    Args:
        access: opens it.
        patience_seconds: until a table that does not answer is given up.
    """

    def __init__(self, access: DynamodbAccess, patience_seconds: float) -> None:
        self.access = access
        self._patience_seconds = patience_seconds
        self._silence_seconds = patience_seconds * SILENCE_SHARE
        self._client = botocore_client(access, self._silence_seconds)
        self._silence = health_of_store(access.url, (access.endpoint, access.region))
        self._last_heard: tuple[datetime, float] | None = None

    @property
    def address(self) -> str:
        """URL of the table, with the service that has it."""
        service = self._client.meta
        return self.access.url + service_query(service.endpoint_url, region=service.region_name)

    def call(self, action: str, operation: str, /, **arguments: Any) -> dict[str, Any]:
        """The answer to an operation. One that was not answered is sent again, whatever it may have done.

        Args:
            action: the verb of an error's sentence.
            operation: a method of the client.
            arguments: of the operation, without the name of the table.

        Raises:
            TerminalError: the table is missing, or refuses the request.
            TransientError: the table did not answer, or took no more requests.
        """
        if "RequestItems" not in arguments:
            arguments["TableName"] = self.access.table
        return self._heard(self._tried(action, lambda client: getattr(client, operation)(**arguments)))

    def batch(self, action: str, operation: str, requests: Any) -> Iterator[dict[str, Any]]:
        """The answers to a batch of requests; those that the table left undone are sent again after a pause."""
        undone = "UnprocessedKeys" if operation == "batch_get_item" else "UnprocessedItems"
        pauses = self._pauses()
        while requests:
            answer = self.call(action, operation, RequestItems={self.access.table: requests})
            yield answer
            requests = answer.get(undone, {}).get(self.access.table)
            if requests:
                _pause(pauses, overloaded(action, self.access))

    def write(self, action: str, requests: Any) -> None:
        """Puts and deletes of a batch."""
        for _ in self.batch(action, "batch_write_item", requests):
            pass

    def pages(self, place: str, prefix: str, names: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """The items of a place whose keys begin with a text, with these attributes, as the last write left them."""
        condition, values = "#place = :place", {}
        if prefix:
            condition, values = f"{condition} AND begins_with(#key, :prefix)", {":prefix": {"S": prefix}}
        wanted: dict[str, Any] = {
            "ConsistentRead": True, "KeyConditionExpression": condition, "ProjectionExpression": ", ".join(names),
            "ExpressionAttributeNames": {"#place": "place", **names},
        }  # fmt: skip
        for shard in _SHARDS:
            wanted["ExpressionAttributeValues"] = {":place": {"S": f"{place}#{shard}"}, **values}
            answer: dict[str, Any] = {"LastEvaluatedKey": None}
            while "LastEvaluatedKey" in answer:
                further = answer["LastEvaluatedKey"]
                answer = self.call("list", "query", **wanted, **({"ExclusiveStartKey": further} if further else {}))
                yield answer

    def now(self) -> datetime:
        """The present time by the clock of the table's service, to the second."""
        if self._last_heard is None:
            self.call("read", "get_item", Key={"place": {"S": "-"}, "key": {"S": "-"}})
        if self._last_heard is None:
            return datetime.now(UTC)
        # This machine's clock may be set while the process runs; what has passed since the last answer is not changed.
        date, at = self._last_heard
        return date + timedelta(seconds=monotonic() - at)

    @cached_property
    def _briefly(self) -> Any:
        """The client for requests to a table that was waited for in vain just now."""
        return botocore_client(self.access, brief_seconds(self._patience_seconds))

    def _tried(self, action: str, send: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        from botocore.exceptions import BotoCoreError, ClientError

        client, pauses = self._client, self._pauses()
        if self._silence.is_recent:
            # One caller has waited for as long as patience lasts. Each further one would wait for as long again.
            client, pauses = self._briefly, iter(())
        started = monotonic()
        while True:
            try:
                answer = send(client)
            except (BotoCoreError, ClientError, OSError) as cause:
                if is_answered(cause):
                    self._silence.end()
                elif monotonic() - started >= self._silence_seconds:
                    self._silence.begin(self._patience_seconds)
                if is_refused_condition(cause):
                    raise
                error = table_error(action, self.access, cause)
            else:
                self._silence.end()
                return answer
            if isinstance(error, TerminalError):
                raise_outgoing(error)
            _pause(pauses, error)

    def _heard(self, answer: dict[str, Any]) -> dict[str, Any]:
        date = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
        if date:
            self._last_heard = parsedate_to_datetime(date).astimezone(UTC), monotonic()
        return answer

    def _pauses(self) -> Iterator[float]:
        return pauses_until(monotonic() + self._patience_seconds * RETRY_SHARE)


def primary_key(place: str, key: str) -> dict[str, Any]:
    """Partition key and sort key of an item. Keys of one folder are in all partitions of the place."""
    shard = sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[0]
    return {"place": {"S": f"{place}#{shard}"}, "key": {"S": key}}


def open_client(access: DynamodbAccess, patience_seconds: float) -> DynamodbClient:
    """The client of a table; one for all stores of this process that open it alike."""
    return _opened(access, patience_seconds)


# A store is opened for each task, and making a client takes longer than most requests.
@lru_cache(maxsize=16)
def _opened(access: DynamodbAccess, patience_seconds: float) -> DynamodbClient:
    return DynamodbClient(access, patience_seconds)


def _pause(pauses: Iterator[float], error: IcefloeError) -> None:
    """Waits before another try; raises the error if there is no time for one."""
    pause_seconds = next(pauses, None)
    if pause_seconds is None:
        raise_outgoing(error)
    # All tasks of a phase are refused at once, and must not come back at once.
    time.sleep(pause_seconds * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
