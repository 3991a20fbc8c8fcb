"""The cluster in memory, where Elasticsearch 8 documents another answer than OpenSearch: points in time, and sorting.

The differences are written as its reference says (open point in time API, paginate search results, ``_id`` field). No
server of it was to be had, so nothing shows that the real one answers alike.
"""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from opensearchpy.exceptions import RequestError

from support.sinks.fake_cluster import FakeCluster

__all__ = ["FakeElasticsearch"]


class FakeElasticsearch(FakeCluster):
    """Points in time have other paths and names, and ``_id`` cannot be sorted by."""

    version = MappingProxyType({"number": "8.15.0", "build_flavor": "default"})

    def perform_request(
        self, method: str, url: str, *, params: Mapping[str, str] | None = None, body: Any = None, **_: Any
    ) -> Any:
        if "point_in_time" in url:
            raise RequestError(400, "illegal_argument_exception", {"error": {"type": "no handler", "reason": url}})
        if (method, url) == ("DELETE", "/_pit"):
            url, body = "/_search/point_in_time", json.dumps({"pit_id": json.loads(body)["id"]})
        if url == "/_search" and json.loads(body)["sort"] != [{"_shard_doc": "asc"}]:
            raise RequestError(400, "illegal_argument_exception", {"error": {"type": "fielddata", "reason": "_id"}})
        if url.endswith("/_pit"):
            if {*(params or {})} != {"keep_alive", "request_timeout"}:
                raise RequestError(
                    400, "illegal_argument_exception", {"error": {"type": "unrecognized", "reason": url}}
                )
            # No point is opened without some of the shards, unless it is asked for.
            wanted = {**(params or {}), "allow_partial_pit_creation": "false"}
            path = url.replace("_pit", "_search/point_in_time")
            found = super().perform_request(method, path, params=wanted, body=body)
            return {"id": found["pit_id"]}
        return super().perform_request(method, url, params=params, body=body)
