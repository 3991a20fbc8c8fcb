"""A search cluster in memory that answers as OpenSearch 3.3 does to the requests of the opensearch sink.

It stands in for the client's transport. tests/servers/test_opensearch.py shows that the real one answers alike.
"""

import copy
import json
import re
from collections.abc import Callable, Mapping
from threading import RLock
from types import MappingProxyType
from typing import Any, Final

from opensearchpy.exceptions import NotFoundError, TransportError

from support.sinks.fake_indexes import Document, FakeIndexes, Index, conflict, error_of, missing

__all__ = ["FakeCluster"]

PAGE: Final = 2
"""Hits of a search at most, so that every test of it turns pages."""


class FakeCluster(FakeIndexes):
    """Answers requests about indexes and their documents.

    Attributes:
        refusal: called with each bulk request; returns the status with which it is refused as a whole, or None.
        item_refusal: called with each operation of a bulk request; returns its status and the error's type, or None.
        is_away: True for the ids of documents whose shard has no node for now.
        most_bytes: size of a request at most.
        requests: method and path of each request.
        version: of itself, as it tells.
        id: of itself, as it tells; None: it tells nobody.
    """

    version: Mapping[str, str] = MappingProxyType({"number": "3.3.0", "distribution": "opensearch"})

    def __init__(self) -> None:
        super().__init__()
        self.refusal: Callable[[bytes], int | None] = lambda _: None
        self.item_refusal: Callable[[dict[str, Any], Any], tuple[int, str] | None] = lambda _, __: None
        self.is_away: Callable[[str], bool] = lambda _: False
        self.most_bytes = 2**20
        self.requests: list[str] = []
        # Stays if a test makes a cluster anew to go on with it.
        self.id: str | None = "a-cluster"
        self._number = 0
        self._points: dict[str, tuple[Index, list[tuple[str, Document]]]] = {}
        self._lock = RLock()

    def perform_request(
        self, method: str, url: str, *, params: Mapping[str, str] | None = None, body: Any = None, **_: Any
    ) -> Any:
        with self._lock:
            self.requests.append(f"{method} {url}")
            data = body if isinstance(body, bytes) else (body or "").encode()
            if len(data) > self.most_bytes:
                raise error_of(413, "", "")
            for verb, pattern, answer in _ROUTES:
                found = re.fullmatch(pattern, url)
                if verb == method and found:
                    return copy.deepcopy(answer(self, *found.groups(), data, dict(params or {})))
            raise AssertionError(f"no such request: {method} {url}")

    def close(self) -> None:
        """Closing the client leaves the cluster as it is."""

    def documents(self, name: str) -> dict[str, dict[str, Any]]:
        """Documents behind a name, without deleted ones."""
        return {
            key: each.source for index in self._behind(name).values() for key, each in index.documents.items()
            if each.source is not None
        }  # fmt: skip

    def update_by_query(self, name: str, *, times: int = 1) -> None:
        """Write every document again as it is, as another program does by ``_update_by_query``: versions grow by 1."""
        for _ in range(times):
            for index in self._behind(name).values():
                for key, each in index.documents.items():
                    if each.source is not None:
                        self._store(index, key, each.version + 1, each.source)

    def delete_by_query(self, name: str) -> None:
        """Delete every document, as another program does by ``_delete_by_query``; versions grow by 1."""
        for index in self._behind(name).values():
            for key, each in index.documents.items():
                self._store(index, key, each.version + 1, None)

    def forget_deletions(self) -> None:
        """Forget which documents were deleted, as happens ``index.gc_deletes`` later."""
        for index in self.indexes.values():
            for key in [key for key, each in index.documents.items() if each.source is None]:
                del index.documents[key]

    def _describe(self, _data: bytes, _params: Any) -> Any:
        return {"version": dict(self.version), **({} if self.id is None else {"cluster_uuid": self.id})}

    def _refresh(self, name: str, _data: bytes, _params: Any) -> Any:
        self._one(name)
        return {"_shards": _shards(self._missing_shards(name))}

    def _missing_shards(self, name: str) -> int:
        return int(any(map(self.is_away, self._one(name).documents)))

    def _put_document(self, name: str, action: str, key: str, data: bytes, params: dict[str, str]) -> Any:
        index = self._written(name, is_alias_required=False)
        stored = index.documents.get(key)
        if action == "_create" and stored is not None and stored.source is not None:
            raise conflict(key)
        if "if_seq_no" in params and (stored is None or str(stored.number) != params["if_seq_no"]):
            raise conflict(key)
        version = int(params["version"]) if "version" in params else (stored.version + 1 if stored else 1)
        if "version" in params and stored is not None and stored.version > version:
            raise conflict(key)
        self._store(index, key, version, json.loads(data))
        return {"_version": version}

    def _get_document(self, name: str, key: str, _data: bytes, _params: Any) -> Any:
        found = self._described(key, self._one(name).documents.get(key))
        if not found["found"]:
            raise NotFoundError(404, "", found)
        return found

    def _get_documents(self, name: str, data: bytes, _params: Any) -> Any:
        ids = json.loads(data)["ids"]
        if not self._behind(name):
            info: Any = missing(name).info
            return {"docs": [{"_index": name, "_id": key, "error": info["error"]} for key in ids]}
        documents = self._one(name).documents
        return {"docs": [self._described(key, documents.get(key)) for key in ids]}

    def _described(self, key: str, stored: Document | None) -> dict[str, Any]:
        if self.is_away(key):
            return {"_id": key, "error": {"type": "no_shard_available_action_exception", "reason": "no node has it"}}
        if stored is None or stored.source is None:
            return {"_id": key, "found": False}
        return {
            "_id": key, "found": True, "_version": stored.version, "_seq_no": stored.number, "_primary_term": 1,
            "_source": stored.source,
        }  # fmt: skip

    def _bulk(self, name: str, data: bytes, _params: dict[str, str]) -> Any:
        status = self.refusal(data)
        if status is not None:
            raise error_of(status, "rejected_execution_exception", "rejected")
        lines = [json.loads(line) for line in data.decode().split("\n") if line]
        items = []
        while lines:
            [(verb, action)] = lines.pop(0).items()
            document = lines.pop(0) if verb == "index" else None
            items.append({verb: self._operate(name, verb, action, document)})
        return {"errors": any("error" in each for item in items for each in item.values()), "items": items}

    def _operate(self, name: str, verb: str, action: dict[str, Any], document: Any) -> dict[str, Any]:
        refused = self.item_refusal(action, document)
        if refused is not None:
            return {"status": refused[0], "error": {"type": refused[1], "reason": "refused"}}
        try:
            index = self._written(name, is_alias_required=verb == "index")
        except TransportError as error:
            info: Any = error.info
            return {"status": error.status_code, "error": info["error"]}
        stored = index.documents.get(action["_id"])
        if stored is not None and stored.version >= action["version"] + (action["version_type"] == "external_gte"):
            return {"status": 409, "error": {"type": "version_conflict_engine_exception", "reason": "conflict"}}
        is_new = stored is None or stored.source is None
        self._store(index, action["_id"], action["version"], document)
        return {"status": 404 if verb == "delete" and is_new else 201 if is_new else 200}

    def _store(self, index: Index, key: str, version: int, source: Any) -> None:
        self._number += 1
        index.documents[key] = Document(version, self._number, source)

    def _open_point(self, name: str, _data: bytes, params: dict[str, str]) -> Any:
        index, missing_shards = self._one(name), self._missing_shards(name)
        if missing_shards and params.get("allow_partial_pit_creation") == "false":
            raise error_of(503, "search_phase_execution_exception", "all shards failed")
        self._number += 1
        found = {key: each for key, each in index.documents.items() if not self.is_away(key)}
        self._points[f"point{self._number}"] = index, sorted(found.items())
        return {"pit_id": f"point{self._number}", "_shards": _shards(missing_shards)}

    def _search(self, data: bytes, params: dict[str, str]) -> Any:
        wanted = json.loads(data)
        index, documents = self._points[wanted["pit"]["id"]]
        if not any(index is each for each in self.indexes.values()):
            # As a real cluster answers, which gives up the points of an index with it.
            raise missing("removed")
        missing_shards = int(any(self.is_away(key) for key, _ in documents))
        if missing_shards and params.get("allow_partial_search_results") == "false":
            raise error_of(503, "search_phase_execution_exception", "Partial shards failure")
        after = wanted.get("search_after", [""])[0]
        filters = wanted["query"]["bool"].get("filter", [])
        is_deleted = {"term": {"_deleted": True}} in filters
        before = next((each["range"]["_deleted_at"]["lt"] for each in filters if "range" in each), "")
        hits = [
            {"_id": key, "_version": each.version, "_source": each.source, "sort": [key]}
            for key, each in documents
            if key > after
            and not self.is_away(key)
            and each.source is not None
            and bool(each.source.get("_deleted")) is is_deleted
            and (not before or each.source["_deleted_at"] < before)
        ]
        shown = hits[: min(wanted["size"], PAGE)]
        return {"hits": {"hits": shown}, "timed_out": False, "_shards": _shards(missing_shards, failed=missing_shards)}

    def _close_point(self, data: bytes, _params: Any) -> Any:
        del self._points[json.loads(data)["pit_id"]]
        return {}


def _shards(missing_shards: int, *, failed: int = 0) -> dict[str, Any]:
    """The shards of an answer, as of an index of two; one without a node has not failed."""
    away = {"reason": {"type": "no_shard_available_action_exception", "reason": "no node has it"}}
    return {"total": 2, "successful": 2 - missing_shards, "failed": failed, "failures": [away] * failed}


_NAME: Final = r"/([^/_][^/]*)"
_ROUTES: Final[tuple[tuple[str, str, Callable[..., Any]], ...]] = (
    ("GET", "/", FakeCluster._describe),
    ("GET", _NAME, FakeCluster._get),
    ("PUT", _NAME, FakeCluster._create),
    ("DELETE", _NAME, FakeCluster._delete),
    ("PUT", f"{_NAME}/_mapping", FakeCluster._put_mapping),
    ("POST", "/_aliases", FakeCluster._move_aliases),
    ("POST", f"{_NAME}/_refresh", FakeCluster._refresh),
    ("PUT", f"{_NAME}/(_doc|_create)/(.+)", FakeCluster._put_document),
    ("GET", f"{_NAME}/_doc/(.+)", FakeCluster._get_document),
    ("POST", f"{_NAME}/_mget", FakeCluster._get_documents),
    ("POST", f"{_NAME}/_bulk", FakeCluster._bulk),
    ("POST", f"{_NAME}/_search/point_in_time", FakeCluster._open_point),
    ("POST", "/_search", FakeCluster._search),
    ("DELETE", "/_search/point_in_time", FakeCluster._close_point),
)
