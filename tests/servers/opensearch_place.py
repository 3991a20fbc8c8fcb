"""An index of a test's own on the real search cluster, the sinks that deliver to it, and plain requests."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from demo.servers.opensearch import OpenSearch
from icefloe.sinks.opensearch.opensearch_sink import OpenSearchSink
from icefloe.sinks.sink import open_sink
from icefloe.storage.location import open_store
from sinks.opensearch.batches import ORIGIN

_NUMBERS: Iterator[int] = count()
_BREAKER = "network.breaker.inflight_requests.limit"


@dataclass(kw_only=True)
class OpenSearchPlace:
    """Opens sinks of one index; each is one more process as far as the cluster knows."""

    url: str
    index: str = field(default_factory=lambda: f"people{next(_NUMBERS)}")
    has_template: bool = False

    def sink(self, **options: Any) -> OpenSearchSink:
        given = {"url": self.url, "index": self.index, "shards": 1, "replicas": 0, **options}
        connection = given.pop("connection", {})
        sink = open_sink({"type": "opensearch", "options": given}, connection=connection, open_store=open_store)
        assert isinstance(sink, OpenSearchSink)
        return sink

    def claimed(self, **options: Any) -> OpenSearchSink:
        sink = self.sink(**options)
        sink.claim(ORIGIN)
        return sink

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The answer to a plain request."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(f"{self.url}/{path}", data=data, method=method, headers=headers)
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def indexes(self) -> set[str]:
        """Names of all indexes that belong to the name."""
        return set(self.ask("GET", f"{self.index}*?expand_wildcards=all"))

    def found(self) -> dict[str, dict[str, Any]]:
        """The documents that a search finds, by id."""
        self.ask("POST", f"{self.index}/_refresh")
        hits = self.ask("GET", f"{self.index}/_search?size=1000")["hits"]["hits"]
        return {hit["_id"]: hit["_source"] for hit in hits}

    @contextmanager
    def broken_circuit(self) -> Iterator[None]:
        """The cluster refuses every request with a body as a whole, as if it had no memory left (429)."""
        self.ask("PUT", "_cluster/settings", {"transient": {_BREAKER: "1b"}})
        try:
            yield
        finally:
            self.ask("PUT", "_cluster/settings", {"transient": {_BREAKER: None}})

    def put_template(self, pattern: str, **template: Any) -> None:
        """The cluster has a template for indexes of the name from now on."""
        self.has_template = True
        body = {"index_patterns": [f"{self.index}{pattern}"], "template": template}
        self.ask("PUT", f"_index_template/{self.index}", body)

    def remove(self) -> None:
        """Remove every index of the name: a node takes a thousand."""
        for name in self.indexes():
            self.ask("DELETE", name)
        if self.has_template:
            self.ask("DELETE", f"_index_template/{self.index}")


def opensearch_place(opensearch: OpenSearch) -> Iterator[OpenSearchPlace]:
    """An index of one test."""
    place = OpenSearchPlace(url=opensearch.url)
    yield place
    place.remove()
