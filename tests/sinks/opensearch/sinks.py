"""Opensearch sinks over the cluster in memory."""

from typing import Any

from icefloe.sinks.opensearch.opensearch_sink import OpenSearchSink, open_opensearch_sink
from icefloe.storage.location import open_store
from icefloe.testing.processes import OutwardCalls
from sinks.opensearch.batches import ORIGIN
from support.sinks.fake_cluster import FakeCluster

URL = "http://search.example:9200"


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
