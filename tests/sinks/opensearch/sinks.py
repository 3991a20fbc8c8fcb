"""Opensearch sinks over the cluster in memory."""

from collections.abc import Iterable
from typing import Any

from icefloe.sinks.opensearch.opensearch_sink import OpenSearchSink, open_opensearch_sink
from icefloe.storage.location import open_store
from icefloe.testing.processes import OutwardCalls
from icefloe.testing.sink_under_test import SinkUnderTest
from icefloe.testing.staged_history import Row
from sinks.opensearch.batches import ORIGIN
from support.sinks.fake_cluster import FakeCluster
from support.sinks.fake_indexes import lost_connection

URL = "http://search.example:9200"


class SuiteOfIndexes(SinkUnderTest):
    """Strikes one of ``step`` calls: each takes a while."""

    deletes = "soft"
    step = 1

    def poison_row(self, _key: int) -> Row | None:
        return {"word": "x" * 2**21}

    def places(self, calls: int) -> Iterable[int]:
        return range(calls % self.step, calls, self.step)

    def lost_connection(self) -> Exception:
        return lost_connection()


def sink_at(cluster: Any, calls: OutwardCalls | None = None, **options: Any) -> OpenSearchSink:
    """A sink whose client sends its requests to a cluster in memory."""
    sink = open_opensearch_sink({"url": URL, "index": "people", **options}, connection={}, open_store=open_store)
    sink._cluster._client.transport = cluster if calls is None else calls.watch(cluster, only=("perform_request",))
    return sink


def claimed(cluster: FakeCluster, **options: Any) -> OpenSearchSink:
    """A sink whose index is claimed."""
    sink = sink_at(cluster, **options)
    sink.claim(ORIGIN)
    return sink
