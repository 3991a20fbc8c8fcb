"""The part of DynamoDB's protocol that icefloe speaks, with faults on demand; DynamoDB Local is the real thing."""

import base64
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from support.servers.serving import Answering, serving

__all__ = ["SECRET", "Storm", "Table", "table_server"]

PAGE_ITEMS = 5
"""So few are found or got at once, and twice as many deleted, so that few are too many."""
SECRET = "testing-s3cr3t"
"""The key of the account, which a service may quote."""
Storm = Callable[[str, dict[str, Any]], str | None]
"""Gets the operation and its arguments; gives the code of an error, ``lost`` if the request has its effect but is not
answered, or None."""


@dataclass(kw_only=True)
class Table:
    """The table behind the server.

    Attributes:
        items: by place and key.
        calls: the operations, in the order in which they came.
    """

    endpoint: str = ""
    items: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def options(self, name: str = "icefloe") -> dict[str, str]:
        """The options of a store that this table coordinates."""
        return {"coordination": f"dynamodb://{name}", **self.access}

    @property
    def access(self) -> dict[str, str]:
        """The options that open the table."""
        return {
            "dynamodb_endpoint": self.endpoint, "dynamodb_region": "eu-west-1", "dynamodb_allow_http": "true",
            "dynamodb_access_key_id": "testing", "dynamodb_secret_access_key": SECRET,
        }  # fmt: skip

    def answer(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        return {
            "GetItem": self._get, "PutItem": self._put, "Query": self._query, "BatchGetItem": self._batch_get,
            "BatchWriteItem": self._batch_write,
        }[operation](request)  # fmt: skip

    def _get(self, request: dict[str, Any]) -> dict[str, Any]:
        assert request.get("ConsistentRead") or request["Key"]["place"]["S"] == "-"
        found = self.items.get(_key(request["Key"]))
        return {} if found is None else {"Item": _projected(found, request)}

    def _put(self, request: dict[str, Any]) -> dict[str, Any]:
        old = self.items.get(_key(request["Item"]))
        if "ConditionExpression" in request:
            assert request["ConditionExpression"] == "attribute_not_exists(#key)"
            if old is not None:
                raise Refusal("ConditionalCheckFailedException", Item=old)
        _refuse_large(request["Item"])
        self.items[_key(request["Item"])] = request["Item"]
        return {"Attributes": old} if old and request.get("ReturnValues") == "ALL_OLD" else {}

    def _query(self, request: dict[str, Any]) -> dict[str, Any]:
        values = request["ExpressionAttributeValues"]
        prefix = values.get(":prefix", {}).get("S", "")
        after = request.get("ExclusiveStartKey", {}).get("key", {}).get("S", "")
        place = values[":place"]["S"]
        keys = sorted(key for at, key in self.items if at == place and key.startswith(prefix) and key > after)
        page = [_projected(self.items[place, key], request) for key in keys[:PAGE_ITEMS]]
        if len(keys) <= PAGE_ITEMS:
            return {"Items": page}
        return {"Items": page, "LastEvaluatedKey": {"place": {"S": place}, "key": {"S": keys[PAGE_ITEMS - 1]}}}

    def _batch_get(self, request: dict[str, Any]) -> dict[str, Any]:
        [(name, wanted)] = request["RequestItems"].items()
        assert len(wanted["Keys"]) <= 100
        assert len({_key(each) for each in wanted["Keys"]}) == len(wanted["Keys"])
        some, rest = wanted["Keys"][:PAGE_ITEMS], wanted["Keys"][PAGE_ITEMS:]
        found = [_projected(self.items[_key(each)], wanted) for each in some if _key(each) in self.items]
        return {"Responses": {name: found}, "UnprocessedKeys": {name: {**wanted, "Keys": rest}} if rest else {}}

    def _batch_write(self, request: dict[str, Any]) -> dict[str, Any]:
        [(name, requests)] = request["RequestItems"].items()
        assert len(requests) <= 25
        rest = requests[2 * PAGE_ITEMS :]
        for each in requests[: 2 * PAGE_ITEMS]:
            if "PutRequest" in each:
                _refuse_large(each["PutRequest"]["Item"])
                self.items[_key(each["PutRequest"]["Item"])] = each["PutRequest"]["Item"]
            else:
                self.items.pop(_key(each["DeleteRequest"]["Key"]), None)
        return {"UnprocessedItems": {name: rest} if rest else {}}


class Refusal(Exception):  # noqa: N818 - named as the protocol has it
    def __init__(self, code: str, **further: Any) -> None:
        super().__init__(code)
        self.code = code
        self.further = further


@contextmanager
def table_server(storm: Storm = lambda _, __: None) -> Iterator[Table]:
    """Serves until left."""
    table = Table()

    class Handler(Answering, BaseHTTPRequestHandler):
        wbufsize = -1

        def do_POST(self) -> None:
            request = json.loads(self.body())
            operation = self.headers["X-Amz-Target"].rpartition(".")[2]
            struck = storm(operation, request)
            try:
                with table.lock:
                    table.calls.append(operation)
                    if struck not in (None, "lost"):
                        raise Refusal(str(struck))
                    answer = table.answer(operation, request)
            except (AssertionError, LookupError) as fault:
                self.send(400, {"__type": "x#ValidationException", "message": f"the test refuses it: {fault!r}"})
                return
            except Refusal as refusal:
                self.send(500 if refusal.code == "InternalServerError" else 400, {
                    "__type": f"com.amazonaws.dynamodb.v20120810#{refusal.code}",
                    "message": f"{refusal.code} of the test, for {SECRET}", **refusal.further,
                })  # fmt: skip
                return
            if struck == "lost":
                self.close_connection = True
                self.connection.close()
                return
            self.send(200, answer)

        def send(self, status: int, document: dict[str, Any]) -> None:
            self.answer(status, json.dumps(document).encode(), Content_Type="application/x-amz-json-1.0")
            self.wfile.flush()

    with serving(Handler) as url:
        table.endpoint = url
        yield table


def _key(attributes: dict[str, Any]) -> tuple[str, str]:
    return attributes["place"]["S"], attributes["key"]["S"]


def _projected(item: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    if "ProjectionExpression" not in request:
        return item
    wanted = {request["ExpressionAttributeNames"][name] for name in request["ProjectionExpression"].split(", ")}
    return {name: value for name, value in item.items() if name in wanted}


def _refuse_large(item: dict[str, Any]) -> None:
    size = sum(len(base64.b64decode(text)) if kind == "B" else len(text)
               for value in item.values() for kind, text in value.items())  # fmt: skip
    if size > 400 * 1024:
        raise Refusal("ValidationException")
